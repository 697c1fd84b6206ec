//! Tables and plots.

use core::ops::Range;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde::Serialize;

/// Writes rows as CSV, under a comment that says what they are.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn table(dir: &Path, name: &str, note: &str, rows: &[impl Serialize]) -> Result<()> {
    let path = file(dir, name, "csv")?;
    let mut file = File::create(&path).with_context(|| path.display().to_string())?;
    writeln!(file, "# {note}").with_context(|| path.display().to_string())?;
    let mut writer = csv::Writer::from_writer(file);
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush().with_context(|| path.display().to_string())?;
    println!("{}", path.display());
    Ok(())
}

fn file(dir: &Path, name: &str, extension: &str) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    Ok(dir.join(name).with_extension(extension))
}

/// Points joined by a line.
pub(super) struct Series {
    /// None: the legend says nothing of it.
    pub(super) label: Option<String>,
    /// Series of one number have one colour; 0 is grey.
    pub(super) color: usize,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) style: Style,
}

/// What a line stands for.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Style {
    /// Something simulated.
    Simulated,
    /// A formula.
    Formula,
}

/// One diagram; both axes are logarithmic.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) legend: SeriesLabelPosition,
    pub(super) series: Vec<Series>,
}

pub(super) use plotters::chart::SeriesLabelPosition as Legend;

/// Width and height, in pixels.
const PANEL: (u32, u32) = (600, 440);
/// Height of a line of the note, and about the width of a character in it.
const NOTE: (u32, u32) = (15, 6);

/// Draws panels side by side as SVG, with the note below.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn plot(dir: &Path, name: &str, note: &str, panels: &[Panel]) -> Result<()> {
    let path = file(dir, name, "svg")?;
    let width = PANEL.0 * panels.len() as u32;
    let note = wrap(note, (width / NOTE.1) as usize);
    let size = (width, PANEL.1 + NOTE.0 * note.len() as u32 + 6);
    {
        let root = SVGBackend::new(&path, size).into_drawing_area();
        draw(&root, &note, panels).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    }
    println!("{}", path.display());
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(
    root: &Area<'_>,
    note: &[String],
    panels: &[Panel],
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>> {
    root.fill(&WHITE)?;
    let (upper, foot) = root.split_vertically(PANEL.1);
    for (line, y) in note.iter().zip((0..).step_by(NOTE.0 as usize)) {
        foot.draw(&Text::new(line.clone(), (10, y), ("sans-serif", 11).into_font()))?;
    }
    for (area, panel) in upper.split_evenly((1, panels.len())).iter().zip(panels) {
        panel.draw(area)?;
    }
    root.present()
}

impl Panel {
    fn draw(
        &self,
        area: &Area<'_>,
    ) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (x, y) = (range(points().map(|point| point.0)), range(points().map(|point| point.1)));
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 15))
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(62)
            .build_cartesian_2d(x.log_scale(), y.log_scale())?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .x_label_formatter(&number)
            .y_label_formatter(&number)
            .light_line_style(WHITE.mix(0.0))
            .draw()?;
        for series in &self.series {
            let color = match series.color.checked_sub(1) {
                Some(index) => Palette99::pick(index).to_rgba(),
                None => BLACK.mix(0.5),
            };
            let width = if series.style == Style::Simulated { 2 } else { 1 };
            let style = color.stroke_width(width);
            let line = series.points.iter().copied();
            match series.style {
                Style::Simulated => {
                    chart.draw_series(LineSeries::new(line.clone(), style))?;
                    chart.draw_series(line.map(|point| Circle::new(point, 3, color.filled())))?;
                }
                Style::Formula => {
                    chart.draw_series(DashedLineSeries::new(line, 5, 4, style))?;
                }
            }
            let Some(label) = &series.label else { continue };
            // The legend goes by elements with a label: one that shows nothing new.
            let first = series.points.iter().copied().take(1);
            chart
                .draw_series(first.map(|point| Circle::new(point, 1, color.filled())))?
                .label(label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        chart
            .configure_series_labels()
            .position(self.legend.clone())
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 11))
            .draw()
    }
}

/// Lines of at most `width` characters, if no word is longer.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// From a little below the smallest to a little above the largest.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), x| (least.min(x), most.max(x)));
    least / 1.15..most * 1.15
}

/// A number with a prefix where it is large.
fn number(value: &f64) -> String {
    let (scaled, prefix) = match *value {
        x if x >= 1e9 => (x / 1e9, "G"),
        x if x >= 1e6 => (x / 1e6, "M"),
        x if x >= 1e4 => (x / 1e3, "k"),
        x => (x, ""),
    };
    let text = if scaled >= 10.0 { format!("{scaled:.0}") } else { format!("{scaled:.2}") };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{prefix}")
}
