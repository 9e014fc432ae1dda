//! Rust source as tokens, without comments, literals and code for tests only.

/// An identifier, `::`, or one other character.
pub(crate) type Token = String;

/// The tokens of a source file that are part of the program.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    without_tests(&lex(source))
}

fn lex(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if first == '"' {
            1 + quoted(&rest[1..], '"')
        } else if first == '\'' {
            character(rest)
        } else if first.is_alphanumeric() || first == '_' {
            let is_part = |part: char| part.is_alphanumeric() || part == '_';
            let length = rest.find(|part| !is_part(part)).unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            // After white space it begins the path of a crate, and the word before it, such as `as`, is not part of that path.
            let is_first = source[..source.len() - rest.len()].ends_with(char::is_whitespace);
            tokens.extend((!is_first).then(|| "::".to_owned()));
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of a raw string that begins here.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = rest.len() - after.len() + hashes + 1;
    Some(
        rest[begin..]
            .find(&end)
            .map_or(rest.len(), |at| begin + at + end.len()),
    )
}

/// The length of what is quoted from here, with the quote at its end.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character literal, or of the quote before a lifetime.
fn character(rest: &str) -> usize {
    let mut inside = rest[1..].chars();
    match (inside.next(), inside.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => 1 + quoted(&rest[1..], '\''),
        _ => 1,
    }
}

/// Leaves out each item after `#[cfg(test)]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].iter().take(CFG_TEST.len()).eq(CFG_TEST) {
            at += item_length(&tokens[at..]);
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The length of the item that begins here: to its semicolon, or to the end of its braces.
fn item_length(tokens: &[Token]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match &**token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth -= 1,
            "}" if depth == 1 => return at + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[test]
fn comments_literals_and_tests_are_left_out() {
    let source = r##"
        //! crate::one
        fn a<'a>(text: &'a str) { let b = ('"', '\'', "crate::two", r#"crate::"three"#); } /* crate::four */
        #[cfg(test)]
        #[expect(dead_code, reason = "a test { }")]
        mod tests { use crate::five; fn b() { } }
        #[cfg(test)]
        use crate::six;
        use crate::seven;
    "##;
    let tokens = tokens(source).join(" ");
    assert!(tokens.ends_with("} use crate :: seven ;"), "{tokens}");
    assert!(tokens.starts_with("fn a < a > ("), "{tokens}");
}
