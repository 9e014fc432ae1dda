//! The frames that a client sends, as far as limits need them: whether a head has arrived only in part, and whether the client may
//! still use the default size of the dynamic table of HPACK. h2 does not expose this. A client could keep a head incomplete as long as
//! other requests are in flight, and keep a table that is larger than the server has announced.

/// The bytes before the first frame.
const PREFACE: usize = 24;

const FRAME_HEADER: usize = 9;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// The bytes of a priority, before the fields.
const PRIORITY_BYTES: usize = 5;

/// The first three bits of the instruction of HPACK that changes the size of the dynamic table, at the beginning of a head. h2 rejects
/// a size over that of the settings.
const SIZE_UPDATE: u8 = 0b001;

/// What has arrived of the frames of a connection.
pub(super) struct Frames {
    /// The bytes to skip: of the preface, or of the payload of a frame.
    rest: usize,
    frame_header: [u8; FRAME_HEADER],
    /// How many bytes of the frame header have arrived.
    header_bytes: usize,
    /// Whether a head has begun, and its last frame has not arrived.
    awaits_continuation: bool,
    /// Whether the payload of the current frame is a part of a head.
    within_head: bool,
    heads: u64,
    received: usize,
    /// Whether the client has acknowledged the settings of the server.
    is_acknowledged: bool,
    /// Whether the client has reduced the table since: h2 then accepts no larger one.
    table_is_small: bool,
    /// How many bytes of payload precede the fields of the current head.
    fields_in: Option<usize>,
    table_bytes: usize,
}

impl Frames {
    pub(super) const fn new() -> Self {
        Self {
            rest: PREFACE,
            frame_header: [0; FRAME_HEADER],
            header_bytes: 0,
            awaits_continuation: false,
            within_head: false,
            heads: 0,
            received: 0,
            is_acknowledged: false,
            table_is_small: false,
            fields_in: None,
            table_bytes: 0,
        }
    }

    /// The bytes that had arrived when the client last sent a head that could add to a large table.
    pub(super) const fn table_bytes(&self) -> usize {
        self.table_bytes
    }

    /// Reads on. Returns the number of the head that has arrived in part, if there is one.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Option<u64> {
        self.received = self.received.saturating_add(bytes.len());
        loop {
            let skipped = self.rest.min(bytes.len());
            self.find_fields(&bytes[..skipped]);
            (self.rest, bytes) = (self.rest - skipped, &bytes[skipped..]);
            if self.rest > 0 {
                break;
            }
            if self.within_head && !self.awaits_continuation {
                self.heads += 1;
            }
            self.within_head = false;
            let more = (FRAME_HEADER - self.header_bytes).min(bytes.len());
            self.frame_header[self.header_bytes..self.header_bytes + more]
                .copy_from_slice(&bytes[..more]);
            (self.header_bytes, bytes) = (self.header_bytes + more, &bytes[more..]);
            if self.header_bytes < FRAME_HEADER {
                break;
            }
            let [high, middle, low, kind, flags, ..] = self.frame_header;
            self.header_bytes = 0;
            self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if kind == HEADERS || kind == CONTINUATION {
                self.within_head = true;
                self.awaits_continuation = flags & END_HEADERS == 0;
            }
            self.is_acknowledged |= kind == SETTINGS && flags & ACK != 0;
            if kind == HEADERS && !self.table_is_small {
                match flags & PADDED {
                    0 => self.fields_in = Some(usize::from(flags & PRIORITY != 0) * PRIORITY_BYTES),
                    // There may be no fields before the padding, which can contain anything.
                    _ => self.table_bytes = self.received,
                }
            }
        }
        (self.within_head || self.awaits_continuation).then_some(self.heads)
    }

    /// Reads the first byte of the fields of a head, if it is in this part of a payload.
    fn find_fields(&mut self, payload: &[u8]) {
        let Some(before) = self.fields_in else { return };
        let Some(first) = payload.get(before) else {
            self.fields_in = Some(before - payload.len());
            return;
        };
        self.fields_in = None;
        match self.is_acknowledged && first >> 5 == SIZE_UPDATE {
            true => self.table_is_small = true,
            false => self.table_bytes = self.received,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let length_bytes = (length as u32).to_be_bytes();
        let mut frame = length_bytes[1..].to_vec();
        frame.extend([kind, flags, 0, 0, 0, 1]);
        frame.resize(FRAME_HEADER + length, 0);
        frame
    }

    #[test]
    fn a_head_is_incomplete_until_its_last_byte_wherever_the_bytes_are_divided() {
        let mut all = vec![b'x'; PREFACE];
        all.extend(frame(4, 0, 18));
        let begins = all.len() + FRAME_HEADER;
        all.extend(frame(HEADERS, 0, 300));
        all.extend(frame(CONTINUATION, 0, 0));
        all.extend(frame(CONTINUATION, END_HEADERS, 70_000));
        let ends = all.len();
        all.extend(frame(0, 0, 40));
        all.extend(frame(HEADERS, END_HEADERS | 1, 10));
        for size in [1, 2, 7, 50, 16_384, usize::MAX] {
            let (mut frames, mut read) = (Frames::new(), 0);
            for part in all.chunks(size.min(all.len())) {
                let incomplete = frames.read(part);
                read += part.len();
                let expected = match read {
                    _ if (begins..ends).contains(&read) => Some(0),
                    _ if read >= all.len() - 10 && read < all.len() => Some(1),
                    _ => None,
                };
                assert_eq!(incomplete, expected, "{read} in parts of {size}");
            }
            assert_eq!(frames.heads, 2);
        }
    }

    #[test]
    fn each_head_has_its_own_number() {
        let mut frames = Frames::new();
        frames.read(&[0; PREFACE]);
        let whole = frame(HEADERS, END_HEADERS, 20);
        assert_eq!(frames.read(&whole[..15]), Some(0));
        let next = [&whole[15..], &whole[..15]].concat();
        assert_eq!(frames.read(&next), Some(1));
        assert_eq!(frames.read(&whole[15..]), None);
    }

    #[test]
    fn a_client_has_a_large_table_until_it_has_acknowledged_the_settings_and_reduced_the_table() {
        let head = |flags, payload: &[u8]| {
            let mut head = frame(HEADERS, flags, payload.len());
            head[FRAME_HEADER..].copy_from_slice(payload);
            head
        };
        let (acknowledged, reduces) = (
            frame(SETTINGS, ACK, 0),
            head(END_HEADERS, &[(SIZE_UPDATE << 5), 0x82]),
        );
        let with_priority = head(END_HEADERS | PRIORITY, &[0, 0, 0, 0, 0, (SIZE_UPDATE << 5)]);
        let continued = [head(0, &[]), frame(CONTINUATION, END_HEADERS, 1)].concat();
        let padded = head(PADDED | END_HEADERS, &[1, (SIZE_UPDATE << 5)]);
        for (before, is_large) in [
            ([&acknowledged[..], &reduces], false),
            ([&acknowledged[..], &with_priority], false),
            ([&reduces[..], &acknowledged], true),
            ([&acknowledged[..], &continued], true),
            ([&acknowledged[..], &padded], true),
        ] {
            let all = [&[0; PREFACE][..], before[0], before[1]].concat();
            for size in [1, 10, all.len()] {
                let mut frames = Frames::new();
                for part in all.chunks(size) {
                    frames.read(part);
                }
                let counted = frames.table_bytes();
                frames.read(&head(END_HEADERS, &[0x82]));
                assert_eq!(
                    frames.table_bytes() > counted,
                    is_large,
                    "{before:?} in parts of {size}"
                );
            }
        }
    }
}
