//! Words in lines of a given width, numbers as words, and lists of them.

/// `text` in lines of at most `columns`, unless a word alone is longer.
#[must_use]
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The same, and a word that alone is longer is broken.
pub(crate) fn broken(text: &str, columns: usize) -> Vec<String> {
    let whole = |line: String| -> Vec<String> {
        let letters: Vec<char> = line.chars().collect();
        letters.chunks(columns.max(1)).map(|part| part.iter().collect()).collect()
    };
    wrapped(text, columns).into_iter().flat_map(whole).collect()
}

/// Shortens to at most `columns` letters, the last of which says where there were more.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// A value with `digits` behind the point; a dash for none.
#[must_use]
pub fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// Each of them once, in the order of the first.
pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_long_ones_kept_or_broken() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensibilities at once", 7), ["incomprehensibilities", "at once"]);
        assert_eq!(broken("incomprehensible ideas", 10), ["incomprehe", "nsible", "ideas"]);
        assert_eq!((shortened("abcdef", 4), shortened("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
        assert!(broken("", 4).concat().is_empty());
    }
}
