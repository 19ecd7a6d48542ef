//! One picture a device: for each victim what the flood keeps (right is more) and the victim's p99
//! (down is less).

use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::prelude::*;

use crate::cells::{Cell, DEVICES, Place};
use crate::data::Measured;
use crate::table::p99_us;

/// A panel's width and height in pixels.
const PANEL: (u32, u32) = (300, 250);
/// Panels in a row.
const ACROSS: usize = 5;
/// Okabe and Ito's colours, which colour-blind readers tell apart as well; each family also has a
/// letter.
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(120, 120, 120),
];

/// A family's place in a panel.
struct Mark {
    /// Its number.
    family: usize,
    /// What the flood keeps, in percent, and the ends of its 95 % interval.
    flood: [f64; 3],
    /// The victim's p99 in milliseconds.
    p99: f64,
}

/// Writes the pictures of a place beside the document.
pub(crate) fn write_all(
    document: &Path,
    place: Place,
    cells: &[(Cell, Measured)],
) -> anyhow::Result<()> {
    let directory = document.parent().unwrap_or(document).join("img");
    for device in DEVICES {
        let panels: Vec<(String, Vec<Mark>)> = cells
            .iter()
            .filter(|(cell, data)| cell.device == device && data.lab.is_some())
            .map(|(cell, data)| (cell.victim(), marks(data)))
            .collect();
        if panels.is_empty() {
            continue;
        }
        let names: Vec<String> = cells
            .iter()
            .find_map(|(_, data)| data.lab.as_ref())
            .map(|run| run.rows.iter().map(|row| row.family.clone()).collect())
            .unwrap_or_default();
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("can't make '{}'", directory.display()))?;
        let path = directory.join(format!("frontier-{}-{device}.svg", place.name()));
        draw(&path, device, &names, &panels)
            .map_err(|e| anyhow!("can't draw '{}': {e}", path.display()))?;
    }
    Ok(())
}

fn marks(data: &Measured) -> Vec<Mark> {
    let rows = data.lab.iter().flat_map(|run| run.rows.iter().enumerate());
    let mark = |(i, row): (usize, &crate::data::Row)| {
        let s = row.summary.as_ref()?;
        let flood = s.flood_kept?;
        let (low, high) = flood.ends().unwrap_or((flood.value, flood.value));
        let flood = [flood.value, low, high].map(|share| 100.0 * share);
        Some(Mark { family: i, flood, p99: p99_us(s.both.as_ref()?)? / 1e3 })
    };
    rows.filter_map(mark).collect()
}

fn letter(i: usize) -> String {
    char::from(b'A'.saturating_add(u8::try_from(i).unwrap_or(25))).to_string()
}

fn draw(
    path: &Path,
    device: &str,
    names: &[String],
    panels: &[(String, Vec<Mark>)],
) -> Result<(), Box<dyn std::error::Error>> {
    let rows = panels.len().div_ceil(ACROSS);
    let across = panels.len().min(ACROSS);
    let head = 50 + 18 * names.len() as u32;
    let size = ((PANEL.0 * across as u32).max(420), PANEL.1 * rows as u32 + head);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let (top, below) = area.split_vertically(head);
    top.draw(&Text::new(device.to_owned(), (10, 6), ("sans-serif", 16).into_font()))?;
    let how = "The victim's p99 against what the flood keeps: right and down is better.";
    top.draw(&Text::new(how, (10, 28), ("sans-serif", 12).into_font()))?;
    for (i, name) in names.iter().enumerate() {
        let y = 50 + 18 * i as i32;
        let style = ("sans-serif", 13).into_font().color(&COLORS[i % COLORS.len()]);
        top.draw(&Text::new(format!("{}  {name}", letter(i)), (14, y), style))?;
    }
    for ((victim, marks), area) in panels.iter().zip(below.split_evenly((rows, across))) {
        let most = marks.iter().map(|mark| mark.flood[0]).fold(100.0, f64::max) * 1.12;
        let low = marks.iter().map(|mark| mark.p99).fold(f64::INFINITY, f64::min);
        let high = marks.iter().map(|mark| mark.p99).fold(0.0, f64::max);
        let ends = (low.min(high) * 0.5).max(1e-3)..(high * 2.0).max(2e-3);
        let mut chart = ChartBuilder::on(&area)
            .caption(victim, ("sans-serif", 13))
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(54)
            .build_cartesian_2d(0.0..most, ends.log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("flood keeps, %")
            .y_desc("p99, ms")
            .x_labels(5)
            .y_labels(5)
            .y_label_formatter(&|ms| format!("{ms}"))
            .draw()?;
        for Mark { family, flood: [flood, low, high], p99 } in marks {
            let color = COLORS[family % COLORS.len()];
            let interval = [(low.max(0.0), *p99), (high.min(most), *p99)];
            chart.draw_series([PathElement::new(interval, color.mix(0.5))])?;
            chart.draw_series([Circle::new((*flood, *p99), 4, color.filled())])?;
            let (x, y) = chart.backend_coord(&(*flood, *p99));
            let (left, top) = (area.get_pixel_range().0.start, area.get_pixel_range().1.start);
            let style = ("sans-serif", 12).into_font().color(&color);
            area.draw(&Text::new(letter(*family), (x - left + 6, y - top - 14), style))?;
        }
    }
    area.present()?;
    Ok(())
}
