//! [`Prose`]: what is said of an experiment, a Markdown file with places for values.
//!
//! The file lies beside the experiment's scenario files (`experiments/ma/figure-2.md`). A heading
//! begins a section:
//!
//! ```text
//! # Title
//! ## Asked                      what the paper asked
//! ## Found                      what it found
//! ## We see                     what we see
//! ## We see in the lab          the same, where the lab cannot say it so
//! ## Not in the lab             why the lab lacks the experiment
//! ## Figure NAME: title         a figure's title, below it its caption
//! ## Notes                      paragraphs below the tables
//! ## Notes of the simulation    more of them, where the simulator ran it
//! ## Notes of the lab           more of them, where the lab ran it
//! ```
//!
//! `{{name:2}}` stands for the fact `name` of the outcome with two decimals, `{{name}}` for a fact that
//! is text. A template language would bring conditions and loops, which prose needs none of, and would
//! tell an unknown name only where it comes upon one.

use serde::{Deserialize, Serialize};

use crate::{Facts, Outcome};

/// Texts about an experiment.
#[derive(Clone, Debug)]
pub struct Prose {
    /// One line for headings.
    pub title: String,
    /// Question of the paper.
    pub asked: String,
    /// Finding of the paper.
    pub found: String,
    /// Reason why the lab lacks the experiment, in words that can follow a colon; none where the lab has it.
    pub not_in_lab: Option<String>,
    we_see: Text,
    we_see_in_lab: Option<Text>,
    figures: Vec<FigureProse>,
    notes: Vec<Text>,
    notes_of_simulation: Vec<Text>,
    notes_of_lab: Vec<Text>,
}

/// Title and caption of a figure.
#[derive(Clone, Debug)]
struct FigureProse {
    name: String,
    title: String,
    caption: Text,
}

/// Problem with a text, or with the values that it is given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProseError {
    /// A line that the format has no place for.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// Problem, and what is needed.
        problem: String,
    },
    /// A section that must be there.
    #[error("has no section `{0}`")]
    Missing(&'static str),
    /// A place without a value.
    #[error("`{{{{{0}}}}}` has no value: the experiment has no fact of that name")]
    Unknown(String),
    /// A value that is not what its place is for.
    #[error("`{{{{{name}}}}}` {problem}")]
    Kind {
        /// The fact.
        name: String,
        /// Problem.
        problem: &'static str,
    },
    /// Facts that no place is for.
    #[error("has no place for {0}")]
    Unused(String),
    /// A figure without a section.
    #[error("has no section `Figure {0}: …`")]
    Untitled(String),
    /// A section without a figure.
    #[error("has a section for a figure `{0}`, which the experiment does not draw")]
    Undrawn(String),
}

/// A paragraph with places for values.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Text(Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Words(String),
    /// A fact, and how many decimals of it are shown; none for text.
    Place(String, Option<usize>),
}

/// Place where an outcome was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ran {
    Simulated,
    InLab,
}

impl Text {
    fn parse(text: &str, line: usize) -> Result<Self, ProseError> {
        let wrong = |problem: String| ProseError::Line { line, problem };
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((words, after)) = rest.split_once("{{") {
            if !words.is_empty() {
                pieces.push(Piece::Words(words.to_owned()));
            }
            let (inside, after) =
                after.split_once("}}").ok_or_else(|| wrong("`{{` without its `}}`".to_owned()))?;
            pieces.push(place(inside).ok_or_else(|| {
                wrong(format!("`{{{{{inside}}}}}` must be `{{{{name}}}}` or `{{{{name:decimals}}}}`"))
            })?);
            rest = after;
        }
        if rest.contains("}}") {
            return Err(wrong("`}}` without its `{{`".to_owned()));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Words(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    fn fill(&self, facts: &Facts) -> Result<String, ProseError> {
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Words(words) => filled.push_str(words),
                Piece::Place(name, decimals) => filled.push_str(&facts.show(name, *decimals)?),
            }
        }
        Ok(filled)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Words(_) => None,
            Piece::Place(name, _) => Some(name.as_str()),
        })
    }

    /// Itself, if it has no places.
    fn plain(self, section: &str, line: usize) -> Result<String, ProseError> {
        let problem = format!("`{section}` is what the paper says: there is no place for values of ours");
        match self.names().next() {
            Some(_) => Err(ProseError::Line { line, problem }),
            None => self.fill(&Facts::default()),
        }
    }
}

fn place(inside: &str) -> Option<Piece> {
    let (name, decimals) = match inside.split_once(':') {
        Some((name, decimals)) => (name, Some(decimals.parse().ok().filter(|count| *count <= 6)?)),
        None => (inside, None),
    };
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_name.then(|| Piece::Place(name.to_owned(), decimals))
}

/// A heading, and the paragraphs below it with the lines they begin in.
struct Section<'a> {
    heading: &'a str,
    line: usize,
    paragraphs: Vec<(usize, String)>,
}

impl Section<'_> {
    fn texts(&self) -> Result<Vec<Text>, ProseError> {
        self.paragraphs.iter().map(|(line, text)| Text::parse(text, *line)).collect()
    }

    /// The only paragraph.
    fn text(&self) -> Result<Text, ProseError> {
        let problem = || format!("`{}` must have one paragraph", self.heading);
        match <[Text; 1]>::try_from(self.texts()?) {
            Ok([text]) => Ok(text),
            Err(_) => Err(ProseError::Line { line: self.line, problem: problem() }),
        }
    }

    fn plain(&self) -> Result<String, ProseError> {
        self.text()?.plain(self.heading, self.line)
    }
}

/// The title, and the sections below it.
fn sections(text: &str) -> Result<(&str, Vec<Section<'_>>), ProseError> {
    let wrong = |line: usize, problem: &str| ProseError::Line { line, problem: problem.to_owned() };
    let mut lines = (1..).zip(text.lines().map(str::trim_end));
    let title = lines.next().and_then(|(_, line)| line.strip_prefix("# ")).map(str::trim);
    let title = title.filter(|title| !title.is_empty()).ok_or_else(|| wrong(1, "must be `# Title`"))?;
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut is_inside = false;
    for (number, line) in lines {
        if let Some(heading) = line.strip_prefix("## ") {
            if sections.iter().any(|section| section.heading == heading) {
                return Err(wrong(number, "this section is there already"));
            }
            sections.push(Section { heading, line: number, paragraphs: Vec::new() });
            is_inside = false;
        } else if line.is_empty() {
            is_inside = false;
        } else if line.starts_with('#') {
            return Err(wrong(number, "a heading must begin with `## `"));
        } else {
            let section = sections.last_mut().ok_or_else(|| wrong(number, "text outside of any section"))?;
            match section.paragraphs.last_mut().filter(|_| is_inside) {
                Some((_, paragraph)) => paragraph.extend([" ", line]),
                None => section.paragraphs.push((number, line.to_owned())),
            }
            is_inside = true;
        }
    }
    Ok((title, sections))
}

impl Prose {
    /// Reads a template.
    ///
    /// # Errors
    /// A section is missing, unknown or twice there, or a place for a value is not written as one.
    pub fn parse(text: &str) -> Result<Self, ProseError> {
        let (title, sections) = sections(text)?;
        let (mut asked, mut found, mut not_in_lab) = (None, None, None);
        let (mut we_see, mut we_see_in_lab) = (None, None);
        let (mut notes, mut of_simulation, mut of_lab, mut figures) = (vec![], vec![], vec![], vec![]);
        for section in &sections {
            match section.heading {
                "Asked" => asked = Some(section.plain()?),
                "Found" => found = Some(section.plain()?),
                "We see" => we_see = Some(section.text()?),
                "We see in the lab" => we_see_in_lab = Some(section.text()?),
                "Not in the lab" => not_in_lab = Some(section.plain()?),
                "Notes" => notes = section.texts()?,
                "Notes of the simulation" => of_simulation = section.texts()?,
                "Notes of the lab" => of_lab = section.texts()?,
                heading => {
                    let named = heading.strip_prefix("Figure ").and_then(|rest| rest.split_once(": "));
                    let (name, title) = named.ok_or_else(|| ProseError::Line {
                        line: section.line,
                        problem: format!("there is no section `{heading}`"),
                    })?;
                    let (name, title) = (name.to_owned(), title.to_owned());
                    figures.push(FigureProse { name, title, caption: section.text()? });
                }
            }
        }
        Ok(Self {
            title: title.to_owned(),
            asked: asked.ok_or(ProseError::Missing("Asked"))?,
            found: found.ok_or(ProseError::Missing("Found"))?,
            not_in_lab,
            we_see: we_see.ok_or(ProseError::Missing("We see"))?,
            we_see_in_lab,
            figures,
            notes,
            notes_of_simulation: of_simulation,
            notes_of_lab: of_lab,
        })
    }

    /// Says what is to be said of `outcome`: what we see, notes, and its figures' titles and captions.
    ///
    /// # Errors
    /// A place has no value, or a figure no title.
    pub(crate) fn tell(&self, outcome: &mut Outcome, ran: Ran) -> Result<(), ProseError> {
        let facts = &outcome.facts;
        let in_lab = self.we_see_in_lab.as_ref().filter(|_| ran == Ran::InLab);
        outcome.we_see = in_lab.unwrap_or(&self.we_see).fill(facts)?;
        let others = if ran == Ran::InLab { &self.notes_of_lab } else { &self.notes_of_simulation };
        let notes = self.notes.iter().chain(others).map(|note| note.fill(facts));
        let notes: Result<Vec<String>, ProseError> = notes.collect();
        outcome.notes = notes?.into_iter().chain(outcome.left_out()).collect();
        for figure in &mut outcome.figures {
            let own = self.figures.iter().find(|own| own.name == figure.name);
            let own = own.ok_or_else(|| ProseError::Untitled(figure.name.clone()))?;
            figure.title.clone_from(&own.title);
            figure.caption = own.caption.fill(facts)?;
        }
        Ok(())
    }

    /// Every place has a fact of its kind, every fact a place, every figure a section and every section
    /// a figure.
    ///
    /// # Errors
    /// One of them has not.
    pub(crate) fn check(&self, outcome: &Outcome) -> Result<(), ProseError> {
        for ran in [Ran::Simulated, Ran::InLab] {
            self.tell(&mut outcome.clone(), ran)?;
        }
        let used: Vec<&str> = self.texts().flat_map(Text::names).collect();
        let unused: Vec<String> = outcome
            .facts
            .names()
            .filter(|name| !used.contains(name))
            .map(|name| format!("`{name}`"))
            .collect();
        if !unused.is_empty() {
            return Err(ProseError::Unused(unused.join(", ")));
        }
        let is_drawn = |own: &FigureProse| outcome.figures.iter().any(|figure| figure.name == own.name);
        match self.figures.iter().find(|own| !is_drawn(own)) {
            Some(undrawn) => Err(ProseError::Undrawn(undrawn.name.clone())),
            None => Ok(()),
        }
    }

    fn texts(&self) -> impl Iterator<Item = &Text> {
        let we_see = [&self.we_see].into_iter().chain(&self.we_see_in_lab);
        let notes = self.notes.iter().chain(&self.notes_of_simulation).chain(&self.notes_of_lab);
        we_see.chain(notes).chain(self.figures.iter().map(|figure| &figure.caption))
    }
}

#[cfg(test)]
mod tests;
