//! Invisible characters: a name of nothing else is blank.

/// Whether a character is invisible: white space, default-ignorable code points (`Default_Ignorable_Code_Point` in
/// DerivedCoreProperties.txt of Unicode 17), and the blank Braille pattern.
pub(crate) fn is_blank(character: char) -> bool {
    character.is_whitespace()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fff8}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_and_default_ignorable_characters_are_blank() {
        let blank = (0..=u32::from(char::MAX))
            .filter_map(char::from_u32)
            .filter(|character| is_blank(*character));
        // 4,174 default-ignorable code points, 25 of white space, and the blank Braille pattern.
        assert_eq!(blank.count(), 4_174 + 25 + 1);
        for seen in [
            'a',
            '.',
            '\u{301}',
            '\u{2801}',
            '🐕',
            '\u{10ffff}',
            '\u{e1000}',
        ] {
            assert!(!is_blank(seen), "{seen:?}");
        }
    }
}
