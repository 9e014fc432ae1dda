//! Messages about malformed JSON. They contain one character of the text at most, because it may contain secrets.

/// The reason if the name of a field contains an unpaired surrogate: that is valid JSON, but not Unicode text. Other strings are not
/// decoded.
const UNPAIRED_SURROGATE: &str = "unpaired surrogate in the name of a field";

/// `not valid JSON` or `not valid Unicode text`, with the reason and the position.
pub(super) fn problem(text: &str, error: &serde_json::Error) -> String {
    let (problem, at) = if text.starts_with('\u{feff}') {
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
    let wanted = match problem == UNPAIRED_SURROGATE {
        true => "Unicode text",
        false => "JSON",
    };
    format!("not valid {wanted}: {problem} at line {line}, column {column}")
}

/// The reason, and the offset in bytes.
fn reason(text: &str, error: &serde_json::Error) -> (String, usize) {
    let at = offset(text, error.line(), error.column());
    let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    let found = rest.chars().next().unwrap_or_default();
    // The parser's message without the position. Should its wording change, the character is still reported.
    let message = error.to_string();
    if message.starts_with("control character") {
        // The parser stops before that character.
        let further = rest.find(|character| character < ' ').unwrap_or_default();
        let found = rest[further..].chars().next().unwrap_or_default();
        let problem = format!("control character {} in a string", shown(found));
        return (problem, at + further);
    }
    let problem = if matches!(found, '}' | ']') && before.trim_ascii_end().ends_with(',') {
        "trailing comma".to_owned()
    } else if message.starts_with("invalid escape") {
        "invalid escape".to_owned()
    } else if message.contains("surrogate") || message.contains("unexpected end of hex") {
        UNPAIRED_SURROGATE.to_owned()
    } else if message.starts_with("invalid number") {
        "invalid number".to_owned()
    } else {
        format!("unexpected character {}", shown(found))
    };
    (problem, at)
}

/// A character in a message.
fn shown(character: char) -> String {
    if character.is_ascii_graphic() {
        character.to_string()
    } else {
        format!("U+{:04X}", u32::from(character))
    }
}

/// The offset of a line and column, both counted from one, the column in bytes.
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
    fn a_message_has_the_position_and_nothing_of_the_text() {
        let whole =
            r#"{"näme": "hunter2 \u0041\ud83d\udc15", "x": [1.5e3, {"y": null}, true], "z": -0}"#;
        let offsets: Vec<usize> = whole.char_indices().map(|(offset, _)| offset).collect();
        let mut broken = 0;
        for offset in offsets {
            for put in [
                "", ",", "}", "]", "\"", "\\", "\u{1}", "\u{feff}", "🐕", "-",
            ] {
                let end = offset + whole[offset..].chars().next().map_or(0, char::len_utf8);
                let text = format!("{}{put}{}", &whole[..offset], &whole[end..]);
                let cut = format!("{}{put}", &whole[..offset]);
                for text in [text, cut] {
                    let Err(error) = serde_json::from_str::<IgnoredAny>(&text) else {
                        continue;
                    };
                    let message = problem(&text, &error);
                    let message = message.strip_prefix("not valid JSON: ").unwrap();
                    assert!(message.contains(" at line 1, column "), "{text}: {message}");
                    assert!(
                        !message.contains("hunter") && message.len() < 70,
                        "{message}"
                    );
                    broken += 1;
                }
            }
        }
        assert!(broken > 1_000, "{broken}");
    }
}
