//! Whether a client can keep a dynamic table of HPACK that is larger than the server has announced. h2 does not expose this: it keeps
//! the default size until the client has acknowledged the settings, and then until the client reduces the table.
//!
//! Heads are followed from field to field, and strings are skipped: clients that never add to the table need not reduce it.

const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// The bytes of a priority, before the fields: the stream that the request depends on, and the weight.
const PRIORITY_BYTES: usize = 5;
const WEIGHT_BYTES: usize = 1;

/// The mask of a stream ID in its field of 32 bits, whose first bit has another meaning, or none.
const STREAM_ID: u32 = u32::MAX >> 1;

#[derive(Default)]
pub(super) struct HeaderTable {
    is_acknowledged: bool,
    is_small: bool,
    expected: Expected,
    /// Whether the fields of the current head are not followed.
    is_skipped: bool,
    /// How many bytes of payload precede the fields.
    before_fields: usize,
    stream: u32,
    depends_on: u32,
}

/// What the next byte of a head is.
#[derive(Clone, Copy, Default)]
enum Expected {
    /// The first byte of a field, or of a change of the table's size.
    #[default]
    Field,
    /// More of the integer in such a byte. This many strings follow.
    Integer { strings: u8 },
    /// The first byte of a string, with its length.
    String { strings: u8 },
    /// More of the length.
    Length {
        strings: u8,
        length: u64,
        shift: u32,
    },
    /// The content of a string.
    Content { strings: u8, rest: u64 },
}

impl Expected {
    const fn after_field(strings: u8) -> Self {
        match strings {
            0 => Self::Field,
            _ => Self::String { strings },
        }
    }

    const fn content(strings: u8, rest: u64) -> Self {
        match rest {
            0 => Self::after_field(strings - 1),
            _ => Self::Content { strings, rest },
        }
    }
}

impl HeaderTable {
    /// The client has acknowledged the settings. From now on, h2 rejects a change to a larger size than the settings allow.
    pub(super) const fn acknowledge(&mut self) {
        self.is_acknowledged = true;
    }

    /// Begins a head with the flags and the stream of its first frame. Returns whether the head may add to a large table.
    pub(super) const fn begin(&mut self, flags: u8, stream: u32) -> bool {
        self.expected = Expected::Field;
        self.before_fields = if flags & PRIORITY == 0 {
            0
        } else {
            PRIORITY_BYTES
        };
        (self.stream, self.depends_on) = (stream & STREAM_ID, 0);
        // A padded head is not followed, and counts as one that adds: clients do not pad heads.
        self.is_skipped = self.is_small || flags & PADDED != 0;
        self.is_skipped && !self.is_small
    }

    /// Reads on in a head. Returns whether it adds to a large table.
    pub(super) fn read(&mut self, mut payload: &[u8]) -> bool {
        let mut adds = false;
        while !self.is_skipped
            && let Some((&byte, rest)) = payload.split_first()
        {
            payload = rest;
            if self.before_fields > 0 {
                if self.before_fields > WEIGHT_BYTES {
                    self.depends_on = self.depends_on << 8 | u32::from(byte);
                }
                self.before_fields -= 1;
                continue;
            }
            self.expected = match self.expected {
                Expected::Field => {
                    // RFC 7541, section 6: the mask of the index or of the size, and whether a value follows.
                    let (prefix, has_value) = match byte {
                        // An indexed field.
                        0x80.. => (0x7f, false),
                        // A literal that is added to the table.
                        0x40.. => (0x3f, true),
                        // Another size of the table.
                        0x20.. => (0x1f, false),
                        // A literal that is not added.
                        _ => (0x0f, true),
                    };
                    adds |= (0x40..0x80).contains(&byte);
                    if (0x20..0x40).contains(&byte) && self.is_acknowledged && self.is_decoded() {
                        (self.is_small, self.is_skipped) = (true, true);
                    }
                    let index = byte & prefix;
                    let strings = u8::from(has_value) + u8::from(has_value && index == 0);
                    match index == prefix {
                        true => Expected::Integer { strings },
                        false => Expected::after_field(strings),
                    }
                }
                Expected::Integer { strings } if byte < 0x80 => Expected::after_field(strings),
                Expected::Integer { strings } => Expected::Integer { strings },
                Expected::String { strings } => match u64::from(byte & 0x7f) {
                    length @ 0x7f => Expected::Length {
                        strings,
                        length,
                        shift: 0,
                    },
                    length => Expected::content(strings, length),
                },
                Expected::Length {
                    strings,
                    length,
                    shift,
                } => {
                    // The shift is limited only so that it cannot overflow: h2 ends the connection for a longer integer.
                    let length = length + (u64::from(byte & 0x7f) << shift.min(32));
                    match byte < 0x80 {
                        true => Expected::content(strings, length),
                        false => Expected::Length {
                            strings,
                            length,
                            shift: shift + 7,
                        },
                    }
                }
                Expected::Content { strings, rest } => {
                    // `byte` is the first of them.
                    let more = rest.min(payload.len() as u64 + 1) - 1;
                    payload = &payload[more as usize..];
                    Expected::content(strings, rest - 1 - more)
                }
            };
        }
        adds
    }

    /// Whether h2 reads the fields of the head: not if its stream depends on itself.
    const fn is_decoded(&self) -> bool {
        self.depends_on & STREAM_ID != self.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: u32 = 7;

    /// Whether a head adds to a large table.
    fn adds(table: &mut HeaderTable, flags: u8, head: &[u8], size: usize) -> bool {
        // The first bit has no meaning.
        let mut adds = table.begin(flags, STREAM | !STREAM_ID);
        for part in head.chunks(size) {
            adds |= table.read(part);
        }
        adds
    }

    /// A literal with a name and a value of this length, of bytes that would be an added field elsewhere.
    fn literal(first: u8, length: usize) -> Vec<u8> {
        let string = match length {
            0..127 => [vec![length as u8], vec![0x40; length]].concat(),
            _ => {
                let rest = length - 127;
                let bytes = [0x7f, (rest & 0x7f) as u8 | 0x80, (rest >> 7) as u8];
                [&bytes[..], &vec![0x40; length]].concat()
            }
        };
        [&[first][..], &string, &string].concat()
    }

    #[test]
    fn a_head_adds_to_the_table_only_with_a_field_that_is_indexed_wherever_it_is_divided() {
        for size in [1, 2, 3, 100, usize::MAX] {
            for length in [0, 1, 126, 127, 300, 9_000] {
                let mut table = HeaderTable::default();
                let never = literal(0x10, length);
                let without = [
                    &never[..],
                    &[0x82, 0xff, 0x80, 0x01],
                    &literal(0, length),
                    &[0x0f, 0x09, 0x01, 0x40],
                ]
                .concat();
                assert!(!adds(&mut table, 0, &without, size), "{length} {size}");
                for added in [
                    &[0x41, 0x01, b'x'][..],
                    &[0x7f, 0x00, 0x00],
                    &literal(0x40, length),
                ] {
                    let with = [&without[..], added, &without].concat();
                    assert!(adds(&mut table, 0, &with, size), "{length} {size}");
                }
            }
        }
    }

    #[test]
    fn a_table_is_large_until_the_client_has_acknowledged_the_settings_and_reduced_it() {
        const REDUCED: &[u8] = &[0x3f, 0xe1, 0x03, 0x82];
        const ADDED: &[u8] = &[0x41, 0x01, b'x'];
        let with_priority = |depends_on: u32| {
            let priority = [&depends_on.to_be_bytes()[..], &[0]].concat();
            [&priority, REDUCED].concat()
        };
        for (is_acknowledged, flags, head, is_large) in [
            (false, 0, REDUCED.to_vec(), true),
            (true, 0, REDUCED.to_vec(), false),
            (true, 0, Vec::new(), true),
            (true, PRIORITY, with_priority(1 << 31), false),
            (true, PRIORITY, with_priority(STREAM), true),
            (true, PRIORITY, with_priority(STREAM | 1 << 31), true),
            (true, PADDED, REDUCED.to_vec(), true),
        ] {
            for size in [1, 6, 100] {
                let mut table = HeaderTable::default();
                if is_acknowledged {
                    table.acknowledge();
                }
                assert_eq!(adds(&mut table, flags, &head, size), flags == PADDED);
                let is_added = adds(&mut table, 0, ADDED, size);
                assert_eq!(is_added, is_large, "{is_acknowledged} {flags} {head:?}");
            }
        }
    }
}
