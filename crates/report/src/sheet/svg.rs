//! A sheet as SVG: short, because a report holds hundreds of curves.
//!
//! Colours stay attributes of the shapes. A page's stylesheet can replace them, since a rule is
//! stronger than an attribute; so one picture is right on light and dark ground. A separate file
//! needs no stylesheet.

use std::fmt::Write;

use plotters_backend::BackendCoord;

use super::{Align, Ink, Shape, Sheet};
use crate::html::markup::escaped;

impl Sheet {
    /// An SVG document with a white ground, for a separate file.
    #[must_use]
    pub fn to_svg(&self, title: &str) -> String {
        let (width, height) = self.size();
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" {}>\n\
             <title>{}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
            width / self.unit,
            height / self.unit,
            attributes(self),
            escaped(title),
        );
        body(&mut out, self);
        out.push_str("</svg>\n");
        out
    }

    /// An `svg` element without ground or size, for a page that has both.
    #[must_use]
    pub(crate) fn to_element(&self) -> String {
        let mut out =
            format!("<svg {} aria-hidden=\"true\" focusable=\"false\">\n", attributes(self));
        body(&mut out, self);
        out.push_str("</svg>");
        out
    }
}

fn attributes(sheet: &Sheet) -> String {
    let (width, height) = sheet.size();
    format!(
        "viewBox=\"0 0 {width} {height}\" fill=\"none\" stroke-linejoin=\"round\" \
         stroke-linecap=\"round\" \
         font-family=\"system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif\""
    )
}

fn body(out: &mut String, sheet: &Sheet) {
    for shape in &sheet.shapes {
        // Writing to a String never fails.
        let _ = one(out, shape);
        out.push('\n');
    }
}

fn one(out: &mut String, shape: &Shape) -> std::fmt::Result {
    match shape {
        Shape::Line { points, ink, width } => {
            write!(
                out,
                "<path d=\"{}\"{} stroke-width=\"{width}\"/>",
                path(points),
                paint("stroke", *ink)
            )
        }
        Shape::Area { points, ink } => {
            write!(out, "<path d=\"{}z\"{}/>", path(points), paint("fill", *ink))
        }
        Shape::Rect { low, high, ink, outline } => {
            let (x, y) = (low.0.min(high.0), low.1.min(high.1));
            let (w, h) = ((high.0 - low.0).abs(), (high.1 - low.1).abs());
            write!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"{}/>",
                surface(*ink, *outline)
            )
        }
        Shape::Circle { center, radius, ink, outline } => {
            let (x, y) = center;
            write!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"{}/>", surface(*ink, *outline))
        }
        Shape::Text { text, at: (x, y), size, bold, ink, align, quarter_turns } => {
            write!(out, "<text x=\"{x}\" y=\"{y}\"{}{}", placed(*align), paint("fill", *ink))?;
            write!(out, " font-size=\"{size}\"")?;
            if *bold {
                out.push_str(" font-weight=\"600\"");
            }
            if *quarter_turns > 0 {
                write!(out, " transform=\"rotate({} {x} {y})\"", 90 * i32::from(*quarter_turns))?;
            }
            write!(out, ">{}</text>", escaped(text))
        }
    }
}

/// Relative after the first point: mostly two short numbers a point.
fn path(points: &[BackendCoord]) -> String {
    let mut out = String::with_capacity(points.len() * 6);
    let mut before: Option<BackendCoord> = None;
    for &(x, y) in points {
        let _ = match before {
            None => write!(out, "M{x} {y}"),
            Some((bx, by)) if y == by => write!(out, "h{}", x - bx),
            Some((bx, by)) if x == bx => write!(out, "v{}", y - by),
            Some((bx, by)) => write!(out, "l{} {}", x - bx, y - by),
        };
        before = Some((x, y));
    }
    out
}

fn surface(ink: Ink, outline: Option<u32>) -> String {
    match outline {
        None => paint("fill", ink),
        Some(width) => format!("{} stroke-width=\"{width}\"", paint("stroke", ink)),
    }
}

fn paint(what: &str, ink: Ink) -> String {
    let (r, g, b) = ink.rgb;
    let mut out = format!(" {what}=\"#{r:02x}{g:02x}{b:02x}\"");
    if ink.alpha < 1.0 {
        let _ = write!(out, " {what}-opacity=\"{:.2}\"", ink.alpha);
    }
    out
}

/// Baselines are set by hand: not everything that reads SVG knows `dominant-baseline`.
fn placed(align: Align) -> String {
    let anchor = match align.across {
        0 => " text-anchor=\"middle\"",
        a if a < 0 => " text-anchor=\"end\"",
        _ => "",
    };
    let down = match align.down {
        0 => " dy=\".35em\"",
        d if d < 0 => " dy=\"-.25em\"",
        _ => " dy=\".8em\"",
    };
    format!("{anchor}{down}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let ink = Ink { rgb: (0, 0x72, 0xb2), alpha: 1.0 };
        let mut sheet = Sheet::new(200, 100);
        sheet.shapes = vec![
            Shape::Line { points: vec![(1, 2), (3, 2), (3, 9), (10, 4)], ink, width: 3 },
            Shape::Area { points: vec![(0, 0), (4, 0), (4, 4)], ink: Ink { alpha: 0.25, ..ink } },
            Shape::Text {
                text: "a < b & \"c\"".into(),
                at: (5, 6),
                size: 26.0,
                bold: true,
                ink,
                align: Align { across: -1, down: 0 },
                quarter_turns: 3,
            },
        ];
        sheet
    }

    #[test]
    fn shapes_become_elements() {
        insta::assert_snapshot!(sheet().to_svg("a <title>"), @"
<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100\" height=\"50\" viewBox=\"0 0 200 100\" \
fill=\"none\" stroke-linejoin=\"round\" stroke-linecap=\"round\" \
font-family=\"system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif\">
<title>a &lt;title&gt;</title>
<rect width=\"200\" height=\"100\" fill=\"#ffffff\"/>
<path d=\"M1 2h2v7l7 -5\" stroke=\"#0072b2\" stroke-width=\"3\"/>
<path d=\"M0 0h4v4z\" fill=\"#0072b2\" fill-opacity=\"0.25\"/>
<text x=\"5\" y=\"6\" text-anchor=\"end\" dy=\".35em\" fill=\"#0072b2\" font-size=\"26\" \
font-weight=\"600\" transform=\"rotate(270 5 6)\">a &lt; b &amp; &quot;c&quot;</text>
</svg>
        ");
    }

    #[test]
    fn an_element_has_no_ground_and_no_name_of_its_own() {
        let element = sheet().to_element();
        assert!(
            !element.contains("ffffff")
                && !element.contains("xmlns")
                && !element.contains("<title>")
        );
    }
}
