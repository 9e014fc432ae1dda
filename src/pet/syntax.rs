//! Why a text is not JSON, in words for the one who wrote it. Nothing of the text is repeated but one character: it may hold secrets.

/// The reason and the place of an error in the syntax of `text`.
pub(super) fn problem(text: &str, error: &serde_json::Error) -> String {
    let (why, at) = if text.starts_with('\u{feff}') {
        ("byte order mark".to_owned(), 0)
    } else if error.is_eof() {
        ("unexpected end".to_owned(), text.len())
    } else {
        reason(text, error)
    };
    let before = text.get(..at).unwrap_or_default();
    let line = 1 + before.matches('\n').count();
    let column = 1 + before
        .rsplit('\n')
        .next()
        .map_or(0, |line| line.chars().count());
    format!("{why} at line {line}, column {column}")
}

/// What is wrong, and at which byte.
fn reason(text: &str, error: &serde_json::Error) -> (String, usize) {
    let at = offset(text, error.line(), error.column());
    let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    let found = rest.chars().next().unwrap_or_default();
    // What the parser says beside the place. Where it words that otherwise one day, the character is still told.
    let said = error.to_string();
    if said.starts_with("control character") {
        // It has stopped before that one.
        let further = rest.find(|character| character < ' ').unwrap_or_default();
        let found = rest[further..].chars().next().unwrap_or_default();
        let why = format!("control character {} in a string", shown(found));
        return (why, at + further);
    }
    let why = if matches!(found, '}' | ']') && before.trim_ascii_end().ends_with(',') {
        "trailing comma".to_owned()
    } else if said.starts_with("invalid escape")
        || said.contains("surrogate")
        || said.contains("unexpected end of hex")
    {
        "invalid escape".to_owned()
    } else if said.starts_with("invalid number") {
        "invalid number".to_owned()
    } else {
        format!("unexpected character {}", shown(found))
    };
    (why, at)
}

/// A character as a message may carry it.
fn shown(character: char) -> String {
    if character.is_ascii_graphic() {
        character.to_string()
    } else {
        format!("U+{:04X}", u32::from(character))
    }
}

/// Where the byte of this line and column is. Both are counted from one, the column in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    let start: usize = lines.map(str::len).sum();
    let at = (start + column.saturating_sub(1)).min(text.len());
    text.floor_char_boundary(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IgnoredAny;

    #[test]
    fn wherever_a_text_breaks_it_is_told_without_the_rest_of_it() {
        let whole =
            r#"{"näme": "hunter2 \u0041\ud83d\udc15", "x": [1.5e3, {"y": null}, true], "z": -0}"#;
        let places: Vec<usize> = whole.char_indices().map(|(place, _)| place).collect();
        let mut broken = 0;
        for place in places {
            for put in [
                "", ",", "}", "]", "\"", "\\", "\u{1}", "\u{feff}", "🐕", "-",
            ] {
                let end = place + whole[place..].chars().next().map_or(0, char::len_utf8);
                let text = format!("{}{put}{}", &whole[..place], &whole[end..]);
                let cut = format!("{}{put}", &whole[..place]);
                for text in [text, cut] {
                    let Err(error) = serde_json::from_str::<IgnoredAny>(&text) else {
                        continue;
                    };
                    let told = problem(&text, &error);
                    assert!(told.contains(" at line 1, column "), "{text}: {told}");
                    assert!(!told.contains("hunter") && told.len() < 70, "{told}");
                    broken += 1;
                }
            }
        }
        assert!(broken > 1_000, "{broken}");
    }
}
