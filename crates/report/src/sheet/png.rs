//! A sheet as PNG.
//!
//! ```text
//! shapes ─ charting library's bitmap, twice as large ─▶ halved (so edges are smooth) ─┐
//! letters ─ a font's outlines ────────────────────────────────────────────────────────┴─▶ PNG
//! ```
//!
//! One sheet unit is one pixel, so a chart's PNG has twice the pixels of its natural size and is
//! sharp on every screen. The installed fonts differ between machines, so the font is a parameter.

use ab_glyph::{Font as _, FontVec, PxScale, ScaleFont as _, point};
use plotters::backend::DrawingBackend;
use plotters_backend::{BackendColor, BackendStyle};
use plotters_bitmap::BitMapBackend;

use super::{Align, Ink, Shape, Sheet};

/// Pixels of the bitmap for each pixel of the PNG, across and down.
const SMOOTH: i32 = 2;
/// Ascent and capital height of common fonts, as shares of the size: where a line of text hangs,
/// and where its middle is.
const ASCENT: f32 = 0.8;
const MIDDLE: f32 = 0.35;
const DESCENT: f32 = 0.25;

/// Why there is no PNG.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The font can't be read.
    #[error("not a TrueType or OpenType font: {0}")]
    Font(String),
    /// The drawing library failed.
    #[error("can't draw the picture: {0}")]
    Draw(String),
    /// The encoder failed.
    #[error("can't encode the picture: {0}")]
    Encode(#[from] png::EncodingError),
}

/// A font's outlines.
#[derive(Debug)]
pub struct Font(FontVec);

impl Font {
    /// From a TrueType or OpenType file.
    ///
    /// # Errors
    /// [`PngError::Font`] if the file is not such a font.
    pub fn of(file: Vec<u8>) -> Result<Self, PngError> {
        FontVec::try_from_vec(file).map(Self).map_err(|e| PngError::Font(e.to_string()))
    }
}

/// Fonts for letters and for bold letters.
#[derive(Clone, Copy, Debug)]
pub struct Fonts<'a> {
    /// For most.
    pub regular: &'a Font,
    /// For headings.
    pub bold: &'a Font,
}

impl Sheet {
    /// As PNG on a white ground.
    ///
    /// # Errors
    /// [`PngError`] if drawing or encoding fails.
    pub fn to_png(&self, fonts: Fonts<'_>) -> Result<Vec<u8>, PngError> {
        let (width, height) = self.size();
        let mut pixels = halved(&self.shapes_bitmap()?, width as usize, height as usize);
        for shape in &self.shapes {
            if let Shape::Text { text, at, size, bold, ink, align, quarter_turns } = shape {
                let font = if *bold { fonts.bold } else { fonts.regular };
                let line =
                    Line { text, size: *size as f32, align: *align, quarter_turns: *quarter_turns };
                let mut blend = |x: i32, y: i32, cover: f32| {
                    if (0..width as i32).contains(&x) && (0..height as i32).contains(&y) {
                        let place = 3 * (y as usize * width as usize + x as usize);
                        mix(&mut pixels[place..place + 3], *ink, cover);
                    }
                };
                line.draw(&font.0, *at, &mut blend);
            }
        }
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header()?.write_image_data(&pixels)?;
        Ok(out)
    }

    /// Everything but letters, `SMOOTH` times as large.
    fn shapes_bitmap(&self) -> Result<Vec<u8>, PngError> {
        let (width, height) = self.size();
        let size = (width * SMOOTH.unsigned_abs(), height * SMOOTH.unsigned_abs());
        let mut pixels = vec![0xff; 3 * size.0 as usize * size.1 as usize];
        {
            let mut bitmap = BitMapBackend::with_buffer(&mut pixels, size);
            for shape in &self.shapes {
                draw(&mut bitmap, shape).map_err(|e| PngError::Draw(e.to_string()))?;
            }
            bitmap.present().map_err(|e| PngError::Draw(e.to_string()))?;
        }
        Ok(pixels)
    }
}

/// A colour and a width as the library takes them.
struct Style(Ink, u32);

impl BackendStyle for Style {
    fn color(&self) -> BackendColor {
        BackendColor { alpha: self.0.alpha, rgb: self.0.rgb }
    }

    fn stroke_width(&self) -> u32 {
        self.1
    }
}

fn draw<B: DrawingBackend>(
    bitmap: &mut B,
    shape: &Shape,
) -> Result<(), plotters_backend::DrawingErrorKind<B::ErrorType>> {
    let large = |(x, y): (i32, i32)| (x * SMOOTH, y * SMOOTH);
    let wide = |width: u32| width * SMOOTH.unsigned_abs();
    match shape {
        Shape::Line { points, ink, width } => {
            bitmap.draw_path(points.iter().copied().map(large), &Style(*ink, wide(*width)))
        }
        Shape::Area { points, ink } => {
            bitmap.fill_polygon(points.iter().copied().map(large), &Style(*ink, 1))
        }
        Shape::Rect { low, high, ink, outline } => bitmap.draw_rect(
            large(*low),
            large(*high),
            &Style(*ink, wide(outline.unwrap_or(1))),
            outline.is_none(),
        ),
        Shape::Circle { center, radius, ink, outline } => bitmap.draw_circle(
            large(*center),
            wide(*radius),
            &Style(*ink, wide(outline.unwrap_or(1))),
            outline.is_none(),
        ),
        Shape::Text { .. } => Ok(()),
    }
}

/// Every pixel the mean of `SMOOTH` × [`SMOOTH`].
fn halved(large: &[u8], width: usize, height: usize) -> Vec<u8> {
    let by = SMOOTH.unsigned_abs() as usize;
    let row = 3 * width * by;
    let mut out = Vec::with_capacity(3 * width * height);
    for y in 0..height {
        for x in 0..width {
            for channel in 0..3 {
                let sum: usize = (0..by * by)
                    .map(|i| {
                        usize::from(
                            large[(y * by + i / by) * row + 3 * (x * by + i % by) + channel],
                        )
                    })
                    .sum();
                out.push((sum / (by * by)) as u8);
            }
        }
    }
    out
}

fn mix(pixel: &mut [u8], ink: Ink, cover: f32) {
    let (r, g, b) = ink.rgb;
    let share = (cover * ink.alpha as f32).clamp(0.0, 1.0);
    for (old, new) in pixel.iter_mut().zip([r, g, b]) {
        *old = (f32::from(*old) * (1.0 - share) + f32::from(new) * share).round() as u8;
    }
}

/// A line of text.
struct Line<'a> {
    text: &'a str,
    /// Of an em, in pixels.
    size: f32,
    align: Align,
    quarter_turns: u8,
}

impl Line<'_> {
    /// Calls `blend` with place and coverage of every pixel that it touches.
    fn draw(&self, font: &FontVec, (left, top): (i32, i32), blend: &mut dyn FnMut(i32, i32, f32)) {
        // The library's scale is a line's height, a size on a sheet is an em's.
        let em = font.units_per_em().unwrap_or(1_000.0);
        let scale = PxScale::from(self.size * font.height_unscaled() / em);
        let scaled = font.as_scaled(scale);
        let advance = |c| scaled.h_advance(font.glyph_id(c));
        let width: f32 = self.text.chars().map(advance).sum();
        let mut x = match self.align.across {
            0 => -width / 2.0,
            a if a < 0 => -width,
            _ => 0.0,
        };
        let baseline = match self.align.down {
            0 => MIDDLE * self.size,
            d if d < 0 => -DESCENT * self.size,
            _ => ASCENT * self.size,
        };
        for c in self.text.chars() {
            let glyph = font.glyph_id(c).with_scale_and_position(scale, point(x, baseline));
            x += advance(c);
            let Some(outline) = font.outline_glyph(glyph) else { continue };
            let bounds = outline.px_bounds();
            outline.draw(|gx, gy, cover| {
                let (gx, gy) = (gx as i32 + bounds.min.x as i32, gy as i32 + bounds.min.y as i32);
                let (gx, gy) = match self.quarter_turns % 4 {
                    0 => (gx, gy),
                    1 => (-gy, gx),
                    2 => (-gx, -gy),
                    _ => (gy, -gx),
                };
                blend(left + gx, top + gy, cover);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Ink = Ink { rgb: (200, 0, 0), alpha: 1.0 };

    #[test]
    fn shapes_are_where_they_belong() {
        let mut sheet = Sheet::new(40, 20);
        sheet.shapes = vec![Shape::Rect { low: (10, 5), high: (20, 15), ink: RED, outline: None }];
        let pixels = halved(&sheet.shapes_bitmap().unwrap(), 40, 20);
        let at = |x: usize, y: usize| &pixels[3 * (y * 40 + x)..][..3];
        assert_eq!(
            (at(15, 10), at(2, 2), at(30, 10)),
            (&[200, 0, 0][..], &[255; 3][..], &[255; 3][..])
        );
    }

    #[test]
    fn what_is_no_font_is_said() {
        assert!(Font::of(b"no font".to_vec()).unwrap_err().to_string().contains("TrueType"));
    }
}
