//! A chart as a whole: its title, its legend, and its panels one below the other.

use kuva::backend::svg::SvgBackend;
use kuva::render::render::{Primitive, Scene, TextAnchor};

use super::super::markup::escape;
use super::label::{TEXT, WIDTH, lines, text, text_width, titled};
use super::panel::{Panel, Point, Shape};
use super::style::{STYLE, Style};

/// The size of the title.
const TITLE: u32 = 17;

/// From the left edge to titles and to the legend.
const EDGE: f64 = 12.0;

/// The length of a line in the legend.
const SAMPLE: f64 = 34.0;

/// The height of a line of the legend.
const LINE: f64 = 22.0;

/// A chart of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// What it is called in a file's name or an address: lower-case letters, digits and hyphens. Differs from that of
    /// each other chart of its document.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How it is to be read, and what it leaves out.
    pub notes: Vec<String>,
    width: u32,
    height: u32,
    content: String,
}

impl Chart {
    /// As a file of its own, with its colours.
    #[must_use]
    pub fn svg(&self) -> String {
        self.element(&format!("<style>{STYLE}</style>"))
    }

    /// As a part of a page that has [`STYLE`] among its own.
    #[must_use]
    pub fn inline(&self) -> String {
        self.element("")
    }

    fn element(&self, style: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" viewBox=\"0 0 {} {}\" \
             aria-label=\"{}\">{style}{}</svg>",
            self.width,
            self.height,
            escape(&self.title),
            self.content
        )
    }
}

/// An entry of the legend.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) style: Style,
}

/// What a chart is made of.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) title: String,
    pub(super) legend: Vec<Key>,
    pub(super) panels: Vec<Panel>,
    pub(super) notes: Vec<String>,
}

impl Picture {
    /// Nothing to draw.
    pub(super) fn empty() -> Self {
        Self { title: String::new(), legend: Vec::new(), panels: Vec::new(), notes: Vec::new() }
    }

    /// As SVG.
    pub(super) fn draw(self) -> Chart {
        let mut scene = Scene::new(WIDTH, 0.0);
        scene.background_color = None;
        let mut at = 4.0;
        for line in lines(&self.title, TITLE, WIDTH - 2.0 * EDGE) {
            at += f64::from(TITLE) + 4.0;
            scene.elements.push(titled(EDGE, at, &line, TITLE));
        }
        at += 10.0;
        at += legend(&self.legend, at, &mut scene.elements);
        for panel in &self.panels {
            if !panel.title.is_empty() {
                at += 20.0;
                scene.elements.push(titled(EDGE, at, &panel.title, TEXT));
                at += 4.0;
            }
            let (parts, height) = panel.draw();
            scene.elements.extend(moved(parts, at));
            at += height;
        }
        at += 4.0;
        let svg = SvgBackend::new().render_scene(&scene);
        Chart {
            name: String::new(),
            title: self.title,
            notes: self.notes,
            width: WIDTH as u32,
            height: at.ceil() as u32,
            content: content(&svg).to_owned(),
        }
    }
}

/// The content of the outermost element, without the comment that says which version drew it.
fn content(svg: &str) -> &str {
    let inner = svg.trim_end().strip_suffix("</svg>").unwrap_or(svg);
    let begin = inner.find("-->").map(|at| at + 3).or_else(|| inner.find('>').map(|at| at + 1));
    inner[begin.unwrap_or(0)..].trim()
}

/// Lines with names, as many beside each other as fit. Returns its height.
fn legend(keys: &[Key], top: f64, parts: &mut Vec<Primitive>) -> f64 {
    let (mut x, mut y) = (EDGE, top + LINE / 2.0);
    for key in keys {
        let width = SAMPLE + 8.0 + text_width(&key.name) + 22.0;
        if x > EDGE && x + width > WIDTH {
            (x, y) = (EDGE, y + LINE);
        }
        parts.extend(sample(&key.style, x, y));
        parts.push(text(x + SAMPLE + 8.0, y + 0.35 * f64::from(TEXT), &key.name, TextAnchor::Start));
        x += width;
    }
    if keys.is_empty() { 0.0 } else { y + LINE / 2.0 - top }
}

/// A piece of a contestant's line with its mark, drawn by what draws it in the panels.
fn sample(style: &Style, x: f64, y: f64) -> Vec<Primitive> {
    let point = |x| Point { x, y: 0.0, interval: None, note: None };
    let parts = Panel::bare(Shape::Line {
        style: Style { mark: None, ..style.clone() },
        points: vec![point(0.0), point(SAMPLE)],
        is_stepped: false,
    });
    let mark = style.mark.map(|_| {
        Panel::bare(Shape::Line { style: style.clone(), points: vec![point(SAMPLE / 2.0)], is_stepped: false })
    });
    let all = parts.into_iter().chain(mark.into_iter().flatten()).collect();
    placed(all, x, y)
}

fn moved(parts: Vec<Primitive>, y: f64) -> Vec<Primitive> {
    placed(parts, 0.0, y)
}

fn placed(parts: Vec<Primitive>, x: f64, y: f64) -> Vec<Primitive> {
    let start =
        Primitive::GroupStart { transform: Some(format!("translate({x:.1},{y:.1})")), title: None, extra_attrs: None };
    [start].into_iter().chain(parts).chain([Primitive::GroupEnd]).collect()
}
