//! The frames that a client sends, as far as limits need them: whether a head has arrived only in part, and how many bytes had
//! arrived when the client last added to a large table of HPACK. h2 does not expose this, and a client could keep a head incomplete
//! as long as other requests are in flight.

use super::header_table::HeaderTable;

/// The bytes before the first frame.
const PREFACE: usize = 24;

const FRAME_HEADER: usize = 9;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

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
    table: HeaderTable,
    received_at_last_addition: usize,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self {
            rest: PREFACE,
            frame_header: [0; FRAME_HEADER],
            header_bytes: 0,
            awaits_continuation: false,
            within_head: false,
            heads: 0,
            received: 0,
            table: HeaderTable::default(),
            received_at_last_addition: 0,
        }
    }

    /// The bytes that had arrived when the client last added to a large table.
    pub(super) const fn received_at_last_addition(&self) -> usize {
        self.received_at_last_addition
    }

    /// Reads on. Returns the number of the head that has arrived in part, if there is one.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Option<u64> {
        self.received = self.received.saturating_add(bytes.len());
        loop {
            let skipped = self.rest.min(bytes.len());
            if self.within_head && self.table.read(&bytes[..skipped]) {
                self.received_at_last_addition = self.received;
            }
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
            let [high, middle, low, kind, flags, stream @ ..] = self.frame_header;
            self.header_bytes = 0;
            self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if kind == HEADERS || kind == CONTINUATION {
                self.within_head = true;
                self.awaits_continuation = flags & END_HEADERS == 0;
            }
            if kind == HEADERS && self.table.begin(flags, u32::from_be_bytes(stream)) {
                self.received_at_last_addition = self.received;
            }
            if kind == SETTINGS && flags & ACK != 0 {
                self.table.acknowledge();
            }
        }
        (self.within_head || self.awaits_continuation).then_some(self.heads)
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
    fn bytes_count_for_the_table_only_with_a_head_that_adds_to_it() {
        const ADDED: [u8; 3] = [0x41, 1, b'x'];
        let payload = |kind, flags, payload: &[u8]| {
            let mut frame = frame(kind, flags, payload.len());
            frame[FRAME_HEADER..].copy_from_slice(payload);
            frame
        };
        let acknowledged = frame(SETTINGS, ACK, 0);
        let reduces = payload(HEADERS, END_HEADERS, &[0x20]);
        // The client appears to reduce the table only if the payload of another frame is taken for that of a head.
        let empty = frame(HEADERS, END_HEADERS, 0);
        let other = payload(6, 0, &[0x20; 8]);
        let continued = [
            payload(HEADERS, 0, &[0x41]),
            payload(CONTINUATION, END_HEADERS, &[1, b'x']),
        ];
        for (before, is_large) in [
            (vec![&acknowledged, &reduces], false),
            (vec![&reduces, &acknowledged], true),
            (vec![&acknowledged, &empty, &other], true),
        ] {
            let before: Vec<u8> = before.into_iter().flatten().copied().collect();
            for head in [payload(HEADERS, END_HEADERS, &ADDED), continued.concat()] {
                let all = [&[0; PREFACE][..], &before, &head].concat();
                for size in [1, 10, all.len()] {
                    let mut frames = Frames::new();
                    for part in all.chunks(size) {
                        frames.read(part);
                    }
                    assert_eq!(
                        frames.received_at_last_addition() > 0,
                        is_large,
                        "{all:?} {size}"
                    );
                }
            }
        }
    }
}
