//! Pages: one HTML file that needs nothing else, light, dark and printed.
//!
//! Pages are written with [`maud`]: what is spliced is escaped, and a tag that is opened is closed.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Style sheet of the pages: text, tables, charts, and the colours `c0` to `c5`, for light, dark and print.
/// The colours began as those of [OI] and were moved apart until a test of all kinds of colour vision held.
pub const STYLE: &str = concat!(
    ":root { color-scheme: light dark;\n",
    include_str!("page/light.css"),
    "}\n@media (prefers-color-scheme: dark) { :root {\n",
    include_str!("page/dark.css"),
    "} }\n",
    include_str!("page/chart.css"),
    include_str!("page/page.css"),
);

/// Style sheet of a chart that is a file of its own.
pub(crate) const FILE_STYLE: &str = concat!(
    "\nsvg { max-width: 100%; height: auto;\n",
    include_str!("page/light.css"),
    "}\n@media (prefers-color-scheme: dark) { svg {\n",
    include_str!("page/dark.css"),
    "} }\n.paper { fill: var(--bg); }\n",
    include_str!("page/chart.css"),
);

/// A whole page: its title, styles beside [`STYLE`], and what stands below the heading.
#[must_use]
pub fn page(title: &str, own_style: &str, body: &Markup) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped("\n")) (PreEscaped(STYLE)) (PreEscaped(own_style)) }
            }
            body { h1 { (title) } (body) }
        }
    };
    whole.into_string() + "\n"
}

/// Text made safe for HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    html! { (text) }.into_string()
}

/// Text made safe for HTML, in which numbers and their units stay on one line.
#[must_use]
pub fn with_units(text: &str) -> Markup {
    let units = [" %", " ms", " Mbit/s", " KB", " MB", " ±"];
    let kept = |text: String, unit: &&str| text.replace(*unit, &unit.replacen(' ', "\u{a0}", 1));
    html! { (units.iter().fold(text.to_owned(), kept)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_escapes_what_it_is_given() {
        let page = page("a < b", ".own {}", &html! { p { ("\"1 & 2\"") } });
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">") && page.ends_with("</html>\n"));
        assert!(page.contains("<title>a &lt; b</title>") && page.contains("<h1>a &lt; b</h1>"));
        assert!(page.contains("&quot;1 &amp; 2&quot;") && page.contains(".own {}"));
        assert!(!page.contains("http") && !page.contains("src="), "it loads nothing");
        assert_eq!(with_units("3 ms & 4 %").into_string(), "3\u{a0}ms &amp; 4\u{a0}%");
    }

    /// A colour's three parts, 0 to 1, linear in light.
    fn linear(colour: &str) -> [f64; 3] {
        let part = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        [1, 3, 5].map(|at| match part(at) {
            v if v <= 0.040_45 => v / 12.92,
            v => ((v + 0.055) / 1.055).powf(2.4),
        })
    }

    fn luminance(c: [f64; 3]) -> f64 {
        0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]
    }

    /// Lightness and the two colour axes of CIELAB (D65).
    fn lab(c: [f64; 3]) -> [f64; 3] {
        let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f((0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.950_47);
        let y = f(luminance(c));
        let z = f((0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// Colours as eyes without one kind of cones see them ([MF] table 1, severity 1).
    const EYES: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ];

    fn colour<'a>(css: &'a str, name: &str) -> &'a str {
        let (_, rest) = css.split_once(&format!("--{name}: ")).unwrap();
        let end = rest.find(';').unwrap();
        if &rest[..end] == "#fff" { "#ffffff" } else { &rest[..end] }
    }

    #[test]
    fn colours_are_told_apart_by_all_eyes_and_from_their_ground() {
        for css in [include_str!("page/light.css"), include_str!("page/dark.css")] {
            let ground = luminance(linear(colour(css, "bg"))) + 0.05;
            let all = ["c0", "c1", "c2", "c3", "c4", "c5"].map(|name| linear(colour(css, name)));
            for (i, one) in all.iter().enumerate() {
                let own = luminance(*one) + 0.05;
                let contrast = (own / ground).max(ground / own);
                assert!(
                    contrast >= 3.0,
                    "c{i} has {contrast:.2} to 1 against its ground (WCAG 1.4.11 wants 3)"
                );
                for (j, other) in all.iter().enumerate().take(i) {
                    for eye in EYES {
                        let seen = |c: &[f64; 3]| {
                            lab(eye
                                .map(|row| (row[0] * c[0] + row[1] * c[1] + row[2] * c[2]).clamp(0.0, 1.0)))
                        };
                        let (a, b) = (seen(one), seen(other));
                        let apart = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
                        assert!(apart >= 20.0, "c{i} and c{j} are {apart:.1} apart in CIELAB");
                    }
                }
            }
        }
    }
}
