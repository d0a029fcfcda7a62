//! Bar charts of reductions, as the paper draws them.

use plotters::prelude::*;

use crate::WorkloadError;

/// Bars of one color: a value in per cent for each query, where there is one.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub name: &'static str,
    /// The color of its bars.
    pub hue: Hue,
    /// One for each query.
    pub values: Vec<Option<f64>>,
}

/// Colors of bars.
#[derive(Clone, Copy, Debug)]
pub enum Hue {
    /// Ours.
    Blue,
    /// A second one of ours.
    Green,
    /// A third one of ours.
    Orange,
    /// The paper's.
    Grey,
}

impl Hue {
    fn rgb(self) -> RGBColor {
        match self {
            Self::Blue => RGBColor(31, 119, 180),
            Self::Green => RGBColor(44, 160, 44),
            Self::Orange => RGBColor(255, 127, 14),
            Self::Grey => RGBColor(150, 150, 150),
        }
    }
}

/// A figure as HTML.
///
/// # Errors
/// If it cannot be drawn.
pub fn figure(
    title: &str,
    caption: &str,
    queries: &[String],
    series: &[Series],
) -> Result<String, WorkloadError> {
    let mut svg = String::new();
    draw(&mut svg, title, queries, series)
        .map_err(|e| WorkloadError::Unexpected(format!("cannot draw {title}: {e}")))?;
    Ok(format!(
        "<figure>{svg}<figcaption>{caption}</figcaption></figure>"
    ))
}

/// Pixels across which the bars of all queries lie.
const WIDTH: u32 = 850;

fn draw(
    svg: &mut String,
    title: &str,
    queries: &[String],
    series: &[Series],
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (960, 320)).into_drawing_area();
    let all = series.iter().flat_map(|series| &series.values).flatten();
    let least = all.copied().fold(0.0, f64::min).max(-100.0);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(50)
        .build_cartesian_2d((0..queries.len()).into_segmented(), least..100.0)?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(i) | SegmentValue::Exact(i) => {
            queries.get(*i).cloned().unwrap_or_default()
        }
        SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(queries.len())
        .x_label_formatter(&name)
        .y_desc("reduction, %")
        .draw()?;
    // A query's bars side by side, with a sixth of its width free at either end.
    let width = WIDTH / queries.len().max(1) as u32;
    let free = width / 6;
    let bar_width = (width - 2 * free) / series.len().max(1) as u32;
    for (place, series) in (0..).zip(series) {
        let color = series.hue.rgb();
        let left = free + place * bar_width;
        let right = width - left - bar_width;
        let bars = (0..).zip(&series.values).filter_map(|(i, value)| {
            let from = (SegmentValue::Exact(i), 0.0);
            let to = (SegmentValue::Exact(i + 1), (*value)?.clamp(least, 100.0));
            let mut bar = Rectangle::new([from, to], color.filled());
            bar.set_margin(0, 0, left, right);
            Some(bar)
        });
        chart
            .draw_series(bars)?
            .label(series.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    root.present()?;
    Ok(())
}
