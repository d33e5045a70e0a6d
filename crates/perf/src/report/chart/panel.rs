//! One panel of a chart: two axes, and what is drawn between them, by `kuva`.

use kuva::prelude::{BarPlot, Layout, LinePlot, LineStyle, Plot, ReferenceLine, ScatterPlot, Theme, TickFormat};
use kuva::render::layout::{AxisLabelOverlap, ComputedLayout};
use kuva::render::render::{Primitive, TextAnchor, render_multiple};

use super::axis::{Axis, Spacing};
use super::label::{TEXT, WIDTH, plain, text, text_width};
use super::style::{AXIS, BOUND, GRID, INK, MARK, PAPER, Style};

/// From the end of the axes to the right edge of the chart.
pub(super) const RIGHT: f64 = 30.0;

/// Above the axes: half a label.
const TOP: f64 = 9.0;

/// Below the axes: labels and a title, labels alone, or ticks alone.
const BOTTOM: [f64; 3] = [48.0, 30.0, 12.0];

/// What is under the pointer when a note is shown.
const REACH: f64 = 8.0;

/// A point of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Where the value lies, with the certainty of the row.
    pub(super) interval: Option<(f64, f64)>,
    /// The text under the pointer.
    pub(super) note: Option<String>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    pub(super) color: &'static str,
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
    /// The text at its end.
    pub(super) label: String,
    pub(super) note: String,
}

/// What is drawn between the axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// A line through points, with a band where there are intervals.
    Line { style: Style, points: Vec<Point>, is_stepped: bool },
    /// A bound that is the same everywhere: a line across, at a value of the vertical axis.
    Across { style: Style, at: f64 },
    /// The same of a panel of bars: at a value of the horizontal axis.
    Upright { style: Style, at: f64 },
    /// Something that happened: a time, and a word, which is at the top of the panel.
    Event { at: f64, word: String },
    /// Bars from the left, the first one at the top.
    Bars(Vec<Bar>),
}

/// One panel.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    /// The text above it.
    pub(super) title: String,
    /// The height of its axes.
    pub(super) height: f64,
    /// From the left edge of the chart to the axes.
    pub(super) left: f64,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) shapes: Vec<Shape>,
}

impl Panel {
    /// Draws it from its own upper left corner on; returns what is drawn, and how high that is.
    pub(super) fn draw(&self) -> (Vec<Primitive>, f64) {
        let height = TOP + self.height + self.bottom();
        let layout = self.layout(height);
        let computed = ComputedLayout::from_layout(&layout);
        let plots = self.shapes.iter().flat_map(|shape| self.plots(shape)).collect();
        let drawn = render_multiple(plots, layout).elements;
        // Clipping would cut marks at the edges in half; each axis has room for all that is drawn.
        let is_clip = |part: &Primitive| matches!(part, Primitive::ClipStart { .. } | Primitive::ClipEnd);
        let mut parts: Vec<Primitive> = drawn.into_iter().filter(|part| !is_clip(part)).collect();
        parts.extend(self.shapes.iter().flat_map(|shape| self.texts(shape, &computed)));
        (parts, height)
    }

    /// A shape without axes around it, in pixels from a corner.
    pub(super) fn bare(shape: Shape) -> Vec<Primitive> {
        let (x, y) = (Axis::of_pixels(WIDTH), Axis::of_pixels(WIDTH));
        let panel = Self { title: String::new(), height: WIDTH, left: 0.0, x, y, shapes: vec![shape] };
        let mut layout = Layout::new((0.0, WIDTH), (0.0, WIDTH))
            .with_width(WIDTH)
            .with_height(WIDTH)
            .with_force_margins(0.0, 0.0)
            .with_force_margins_y(-WIDTH, WIDTH)
            .with_x_axis_min(0.0)
            .with_x_axis_max(WIDTH)
            .with_y_axis_min(0.0)
            .with_y_axis_max(WIDTH)
            .with_show_grid(false);
        (layout.suppress_x_ticks, layout.suppress_y_ticks) = (true, true);
        let plots = panel.shapes.iter().flat_map(|shape| panel.plots(shape)).collect();
        let drawn = render_multiple(plots, layout).elements;
        let begin = drawn.iter().position(|part| matches!(part, Primitive::ClipStart { .. })).map_or(0, |at| at + 1);
        drawn.into_iter().skip(begin).take_while(|part| !matches!(part, Primitive::ClipEnd)).collect()
    }

    fn bottom(&self) -> f64 {
        let is_bare = (self.x.format)(self.x.range.0).is_empty();
        BOTTOM[if !self.x.title.is_empty() { 0 } else { 1 + usize::from(is_bare) }]
    }

    fn layout(&self, height: f64) -> Layout {
        let (x, y) = (&self.x, &self.y);
        let mut layout = Layout::new(x.range, y.range)
            .with_width(WIDTH)
            .with_height(height)
            .with_force_margins(self.left, RIGHT)
            .with_force_margins_y(TOP, self.bottom())
            .with_x_axis_min(x.range.0)
            .with_x_axis_max(x.range.1)
            .with_y_axis_min(y.range.0)
            .with_y_axis_max(y.range.1)
            .with_tick_size(TEXT)
            .with_label_size(TEXT)
            .with_ticks(if self.height < 120.0 { 3 } else { 6 })
            .with_x_label_overlap(AxisLabelOverlap::Thin)
            .with_x_tick_format(tick_format(x))
            .with_y_tick_format(tick_format(y))
            .with_theme(theme());
        layout.log_x = x.spacing == Spacing::Decades;
        layout.log_y = y.spacing == Spacing::Decades;
        layout.x_tick_step = x.step;
        layout.y_tick_step = y.step;
        layout.x_label = (!x.title.is_empty()).then(|| plain(&x.title));
        layout.y_categories = (!y.names.is_empty()).then(|| y.names.iter().map(|name| plain(name)).collect());
        let references = self.shapes.iter().filter_map(|shape| self.reference(shape));
        references.fold(layout, Layout::with_reference_line)
    }

    /// The parts of `kuva` that a shape is drawn by.
    fn plots(&self, shape: &Shape) -> Vec<Plot> {
        match shape {
            Shape::Line { style, points, is_stepped } => self.line(style, points, *is_stepped),
            Shape::Bars(bars) if self.x.spacing == Spacing::Even => vec![bar_plot(&placed(bars, &self.x))],
            Shape::Bars(bars) => dots(&placed(bars, &self.x)),
            _ => Vec::new(),
        }
    }

    fn line(&self, style: &Style, points: &[Point], is_stepped: bool) -> Vec<Plot> {
        let places: Vec<(f64, f64)> =
            points.iter().map(|point| (self.x.place(point.x), self.y.place(point.y))).collect();
        let mut line = LinePlot::new()
            .with_data(places.iter().copied())
            .with_color(style.color)
            .with_stroke_width(style.width)
            .with_line_style(style.dash.map_or(LineStyle::Solid, |dash| LineStyle::Custom(dash.to_owned())));
        line.step = is_stepped;
        if points.iter().any(|point| point.interval.is_some()) {
            let end = |low: bool| {
                let pick = move |(from, to): (f64, f64)| if low { from } else { to };
                points.iter().map(move |point| self.y.place(point.interval.map_or(point.y, pick))).collect::<Vec<f64>>()
            };
            line = line.with_band(end(true), end(false));
            line.band = line.band.map(|band| band.with_opacity(0.22));
        }
        let Some(mark) = style.mark else { return vec![line.into()] };
        let marks = ScatterPlot::new().with_data(places).with_color(style.color).with_size(3.8).with_marker(mark);
        vec![line.into(), marks.into()]
    }

    fn reference(&self, shape: &Shape) -> Option<ReferenceLine> {
        match shape {
            Shape::Across { style, at } => Some(drawn_as(style, ReferenceLine::horizontal(self.y.place(*at)))),
            Shape::Upright { style, at } => Some(drawn_as(style, ReferenceLine::vertical(self.x.place(*at)))),
            Shape::Event { at, .. } => {
                let line = ReferenceLine::vertical(self.x.place(*at)).with_color(MARK);
                Some(line.with_dasharray("4 3").with_stroke_width(1.5))
            }
            _ => None,
        }
    }

    /// What `kuva` doesn't write: what happened, the values of bars, and notes.
    fn texts(&self, shape: &Shape, computed: &ComputedLayout) -> Vec<Primitive> {
        match shape {
            Shape::Line { points, .. } => points
                .iter()
                .flat_map(|point| {
                    let (x, y) = (computed.map_x(self.x.place(point.x)), computed.map_y(self.y.place(point.y)));
                    point.note.iter().flat_map(move |text| note(text, (x, y)))
                })
                .collect(),
            Shape::Bars(bars) => placed(bars, &self.x)
                .iter()
                .rev()
                .zip(1..)
                .flat_map(|(bar, row)| {
                    let end = computed.map_x(bar.interval.map_or(bar.value, |(_, high)| high.max(bar.value)));
                    let y = computed.map_y(f64::from(row));
                    let label = text(end + 8.0, y + 0.35 * f64::from(TEXT), &bar.label, TextAnchor::Start);
                    note(&bar.note, (computed.map_x(bar.value), y)).into_iter().chain([label]).collect::<Vec<_>>()
                })
                .collect(),
            Shape::Event { at, word } => {
                let x = computed.map_x(self.x.place(*at));
                let is_last = x + 4.0 + text_width(word) > WIDTH - RIGHT;
                let (x, anchor) = if is_last { (x - 4.0, TextAnchor::End) } else { (x + 4.0, TextAnchor::Start) };
                vec![text(x, TOP + f64::from(TEXT), word, anchor)]
            }
            _ => Vec::new(),
        }
    }
}

fn drawn_as(style: &Style, line: ReferenceLine) -> ReferenceLine {
    line.with_color(style.color).with_stroke_width(style.width).with_dasharray(style.dash.unwrap_or_default())
}

/// A note that browsers show at a place, under the pointer.
fn note(text: &str, (cx, cy): (f64, f64)) -> [Primitive; 3] {
    let area = Primitive::Circle {
        cx,
        cy,
        r: REACH,
        fill: INK.into(),
        fill_opacity: Some(0.0),
        stroke: None,
        stroke_width: None,
    };
    let start = Primitive::GroupStart { transform: None, title: Some(text.to_owned()), extra_attrs: None };
    [start, area, Primitive::GroupEnd]
}

/// The same bars within the range of an axis.
fn placed(bars: &[Bar], x: &Axis) -> Vec<Bar> {
    let place = |bar: &Bar| Bar {
        value: x.place(bar.value),
        interval: bar.interval.map(|(low, high)| (x.place(low), x.place(high))),
        ..bar.clone()
    };
    bars.iter().map(place).collect()
}

/// Bars from zero on, with whiskers.
fn bar_plot(bars: &[Bar]) -> Plot {
    let mut plot =
        BarPlot::new().with_horizontal(true).with_width(0.62).with_error_color(INK).with_error_cap_width(0.5);
    for bar in bars.iter().rev() {
        plot = plot.with_colored_bar("", bar.value, bar.color);
    }
    plot.with_asymmetric_error(bars.iter().rev().map(arms)).into()
}

/// On a logarithmic axis, where bars would have no beginning: points with whiskers.
fn dots(bars: &[Bar]) -> Vec<Plot> {
    let dot = |(bar, row): (&Bar, u32)| {
        let plot = ScatterPlot::new().with_data([(bar.value, f64::from(row))]).with_color(bar.color).with_size(5.0);
        let (low, high) = arms(bar);
        // Rounded, a longer arm would end at zero, which has no place on the axis.
        plot.with_x_err_asymmetric([(low.min(bar.value * (1.0 - 1e-12)), high)]).into()
    };
    bars.iter().rev().zip(1..).map(dot).collect()
}

/// How far an interval reaches to both sides.
fn arms(bar: &Bar) -> (f64, f64) {
    bar.interval.map_or((0.0, 0.0), |(low, high)| ((bar.value - low).max(0.0), (high - bar.value).max(0.0)))
}

fn tick_format(axis: &Axis) -> TickFormat {
    TickFormat::Custom(axis.format.clone())
}

fn theme() -> Theme {
    Theme {
        background: PAPER.into(),
        axis_color: AXIS.into(),
        grid_color: GRID.into(),
        tick_color: AXIS.into(),
        text_color: INK.into(),
        legend_bg: PAPER.into(),
        legend_border: AXIS.into(),
        pie_leader: BOUND.into(),
        box_median: PAPER.into(),
        violin_border: AXIS.into(),
        colorbar_border: AXIS.into(),
        ..Theme::light()
    }
}
