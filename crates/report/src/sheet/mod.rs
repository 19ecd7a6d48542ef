//! A sheet: what the charting library draws, kept as shapes, so that one drawing becomes an SVG and
//! a PNG.
//!
//! ```text
//! chart ─ plotters ─▶ Backend ─▶ Sheet { shapes } ─┬─ svg ─▶ text
//!                                                  └─ png ─▶ bytes (feature `png`)
//! ```
//!
//! A chart's coordinates are half pixels (`UNIT`): the library's are whole numbers, and a curve on
//! whole pixels has visible steps.

#[cfg(feature = "png")]
pub mod png;
mod svg;

use std::convert::Infallible;

use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{FontStyle, FontTransform};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind,
};

/// Sheet units in a pixel of a chart's own size.
pub(crate) const UNIT: i32 = 2;

/// A colour with its opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ink {
    /// Red, green, blue.
    pub(crate) rgb: (u8, u8, u8),
    /// 0 to 1.
    pub(crate) alpha: f64,
}

/// The shapes of a sheet; coordinates and lengths in sheet units.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// An open line through points.
    Line { points: Vec<BackendCoord>, ink: Ink, width: u32 },
    /// A filled polygon.
    Area { points: Vec<BackendCoord>, ink: Ink },
    /// A rectangle; outlined unless filled.
    Rect { low: BackendCoord, high: BackendCoord, ink: Ink, outline: Option<u32> },
    /// A circle; outlined unless filled.
    Circle { center: BackendCoord, radius: u32, ink: Ink, outline: Option<u32> },
    /// A line of text.
    Text {
        text: String,
        at: BackendCoord,
        size: f64,
        bold: bool,
        ink: Ink,
        align: Align,
        quarter_turns: u8,
    },
}

impl Shape {
    /// The same elsewhere.
    pub(crate) fn moved(&self, right: i32, down: i32) -> Self {
        let mut moved = self.clone();
        let add = |at: &mut BackendCoord| *at = (at.0 + right, at.1 + down);
        match &mut moved {
            Self::Line { points, .. } | Self::Area { points, .. } => {
                points.iter_mut().for_each(add)
            }
            Self::Rect { low, high, .. } => [low, high].into_iter().for_each(add),
            Self::Circle { center, .. } => add(center),
            Self::Text { at, .. } => add(at),
        }
        moved
    }
}

/// Where a text stands around its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Align {
    /// Across: −1 the text ends there, 0 it is centred, 1 it begins there.
    pub(crate) across: i8,
    /// Down: −1 the text stands on it, 0 it is centred, 1 it hangs from it.
    pub(crate) down: i8,
}

/// A drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    width: u32,
    height: u32,
    /// Sheet units in one pixel of the sheet's natural size.
    unit: u32,
    pub(crate) shapes: Vec<Shape>,
}

impl Sheet {
    /// An empty one of so many units, [`UNIT`] to a pixel.
    #[must_use]
    pub(crate) fn new(width: i32, height: i32) -> Self {
        Self { unit: UNIT.unsigned_abs(), ..Self::of_pixels(width, height) }
    }

    /// An empty one whose units are pixels.
    #[must_use]
    pub(crate) fn of_pixels(width: i32, height: i32) -> Self {
        let length = |l: i32| l.max(1).unsigned_abs();
        Self { width: length(width), height: length(height), unit: 1, shapes: Vec::new() }
    }

    /// Width and height in sheet units.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }
}

/// What the charting library draws on.
pub(crate) struct Backend<'a>(pub(crate) &'a mut Sheet);

/// A sheet never fails.
pub(crate) type Never = Infallible;

fn ink(color: BackendColor) -> Ink {
    Ink { rgb: color.rgb, alpha: color.alpha }
}

impl Backend<'_> {
    /// Invisible shapes are not stored.
    fn add(&mut self, ink: Ink, shape: Shape) -> Result<(), DrawingErrorKind<Never>> {
        if ink.alpha > 0.0 {
            self.0.shapes.push(shape);
        }
        Ok(())
    }
}

impl DrawingBackend for Backend<'_> {
    type ErrorType = Never;

    fn get_size(&self) -> (u32, u32) {
        self.0.size()
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Never>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Never>> {
        Ok(())
    }

    fn draw_pixel(
        &mut self,
        at: BackendCoord,
        color: BackendColor,
    ) -> Result<(), DrawingErrorKind<Never>> {
        let ink = ink(color);
        self.add(ink, Shape::Rect { low: at, high: (at.0 + 1, at.1 + 1), ink, outline: None })
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Never>> {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        low: BackendCoord,
        high: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Result<(), DrawingErrorKind<Never>> {
        let ink = ink(style.color());
        let outline = (!fill).then(|| style.stroke_width());
        self.add(ink, Shape::Rect { low, high, ink, outline })
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Never>> {
        let ink = ink(style.color());
        let mut points: Vec<BackendCoord> = path.into_iter().collect();
        points.dedup();
        self.add(ink, Shape::Line { points, ink, width: style.stroke_width() })
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Result<(), DrawingErrorKind<Never>> {
        let ink = ink(style.color());
        let outline = (!fill).then(|| style.stroke_width());
        self.add(ink, Shape::Circle { center, radius, ink, outline })
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Never>> {
        let ink = ink(style.color());
        self.add(ink, Shape::Area { points: points.into_iter().collect(), ink })
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        at: BackendCoord,
    ) -> Result<(), DrawingErrorKind<Never>> {
        let ink = ink(style.color());
        let anchor = style.anchor();
        let align = Align {
            across: match anchor.h_pos {
                HPos::Left => 1,
                HPos::Center => 0,
                HPos::Right => -1,
            },
            down: match anchor.v_pos {
                VPos::Top => 1,
                VPos::Center => 0,
                VPos::Bottom => -1,
            },
        };
        let quarter_turns = match style.transform() {
            FontTransform::None => 0,
            FontTransform::Rotate90 => 1,
            FontTransform::Rotate180 => 2,
            FontTransform::Rotate270 => 3,
        };
        let bold = matches!(style.style(), FontStyle::Bold);
        let (text, size) = (text.to_owned(), style.size());
        self.add(ink, Shape::Text { text, at, size, bold, ink, align, quarter_turns })
    }
}
