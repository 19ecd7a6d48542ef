//! Colours: Okabe and Ito's, which colour-blind readers can tell apart ("Color Universal Design",
//! 2008), and greys.
//!
//! html/style.css maps each to one that is seen as well on a dark ground; a test holds the two
//! together.

use floodwall_model::trial::PhaseKind;
use plotters::style::RGBColor;

pub(crate) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub(crate) const VERMILLION: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
pub(crate) const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
pub(crate) const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
pub(crate) const PURPLE: RGBColor = RGBColor(0xcc, 0x79, 0xa7);
pub(crate) const SKY: RGBColor = RGBColor(0x56, 0xb4, 0xe9);
pub(crate) const CRIMSON: RGBColor = RGBColor(0xb0, 0x00, 0x20);
/// Letters.
pub(crate) const INK: RGBColor = RGBColor(0x1b, 0x22, 0x2b);
/// Letters that matter less.
pub(crate) const GREY: RGBColor = RGBColor(0x5b, 0x66, 0x74);
/// Marks drawn for comparison only.
pub(crate) const PALE: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);
/// Lines of a grid.
pub(crate) const GRID: RGBColor = RGBColor(0xe1, 0xe6, 0xec);
/// The ground.
pub(crate) const GROUND: RGBColor = RGBColor(0xff, 0xff, 0xff);

/// Every colour that a chart uses.
#[cfg(test)]
pub(crate) const ALL: [RGBColor; 12] =
    [BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, CRIMSON, INK, GREY, PALE, GRID, GROUND];

/// Colours of settings beside each other; the settings with a fixed colour come first.
pub(crate) const SERIES: [RGBColor; 5] = [BLUE, GREEN, PURPLE, ORANGE, SKY];

/// The ground of a phase, wherever phases lie on an axis of time.
pub(crate) fn tint_of(kind: PhaseKind) -> RGBColor {
    match kind {
        PhaseKind::Victim => BLUE,
        PhaseKind::Flood => VERMILLION,
        PhaseKind::Both => PURPLE,
        PhaseKind::Burst => GREEN,
    }
}

pub(crate) fn rgb(color: RGBColor) -> (u8, u8, u8) {
    (color.0, color.1, color.2)
}
