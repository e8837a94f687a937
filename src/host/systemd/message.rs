//! The messages of D-Bus that are exchanged with systemd, as bytes. Pure.
//!
//! Little endian; every value begins at a multiple of its alignment, counted from the beginning of the message. The body
//! begins at a multiple of 8, so that counting from its own beginning is the same.

/// Far more than systemd says.
pub(super) const MAX_MESSAGE: usize = 1 << 20;
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const DESTINATION: &str = "org.freedesktop.systemd1";

/// The fields of a header that matter.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION_FIELD: u8 = 6;
const SIGNATURE: u8 = 8;

/// A property of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Property {
    /// Yes or no.
    Bool(&'static str, bool),
    /// A number; the largest is infinity.
    U64(&'static str, u64),
    /// A text.
    Text(&'static str, String),
    /// Names of units.
    Units(&'static str, Vec<String>),
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BusMessageKind {
    Return,
    Error,
    Signal,
    Other,
}

/// A message of systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BusMessage {
    pub(super) kind: BusMessageKind,
    pub(super) reply_to: Option<u32>,
    pub(super) error_name: Option<String>,
    member: Option<String>,
    signature: String,
    body: Vec<u8>,
}

/// Values in the making.
#[derive(Debug, Default)]
pub(super) struct BusBody(Vec<u8>);

impl BusBody {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn u32(&mut self, number: usize) -> &mut Self {
        self.align(4);
        // No message is longer than `MAX_MESSAGE`.
        self.0.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
        self
    }

    /// Adds a boolean.
    pub(super) fn bool(&mut self, yes: bool) -> &mut Self {
        self.u32(usize::from(yes))
    }

    /// Adds a string.
    pub(super) fn string(&mut self, text: &str) -> &mut Self {
        self.u32(text.len());
        self.0.extend(text.as_bytes());
        self.0.push(0);
        self
    }

    fn signature(&mut self, text: &str) -> &mut Self {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend(text.as_bytes());
        self.0.push(0);
        self
    }

    /// An array whose elements begin at multiples of `alignment`: its length does not count the first padding.
    fn array(&mut self, alignment: usize, elements: impl FnOnce(&mut Self)) -> &mut Self {
        self.u32(0);
        let length_at = self.0.len() - 4;
        self.align(alignment);
        let start = self.0.len();
        elements(self);
        let length = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        self.0[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        self
    }

    /// An array of pairs of a name and a variant: `a(sv)`.
    pub(super) fn properties(&mut self, properties: &[Property]) -> &mut Self {
        self.array(8, |body| {
            for property in properties {
                body.align(8);
                body.property(property);
            }
        })
    }

    fn property(&mut self, property: &Property) {
        match property {
            Property::Bool(name, yes) => {
                self.string(name).signature("b").bool(*yes);
            }
            Property::U64(name, number) => {
                self.string(name).signature("t").align(8);
                self.0.extend(number.to_le_bytes());
            }
            Property::Text(name, text) => {
                self.string(name).signature("s").string(text);
            }
            Property::Units(name, units) => {
                self.string(name).signature("as").array(4, |body| {
                    for unit in units {
                        body.string(unit);
                    }
                });
            }
        }
    }

    /// No further units: an empty `a(sa(sv))`.
    pub(super) fn no_units(&mut self) -> &mut Self {
        self.array(8, |_| ())
    }

    /// A field of a header: its number and a variant.
    fn field(&mut self, number: u8, signature: &str, text: &str) {
        self.align(8);
        self.0.push(number);
        self.signature(signature);
        if signature == "g" {
            self.signature(text);
        } else {
            self.string(text);
        }
    }
}

/// The bytes of a call of systemd's manager.
pub(super) fn method_call(member: &str, serial: u32, signature: &str, body: BusBody) -> Vec<u8> {
    let mut message = BusBody(vec![b'l', 1, 0, 1]);
    message.u32(body.0.len());
    message.0.extend(serial.to_le_bytes());
    message.array(8, |header| {
        header.field(PATH, "o", MANAGER_PATH);
        header.field(DESTINATION_FIELD, "s", DESTINATION);
        header.field(INTERFACE, "s", MANAGER);
        header.field(MEMBER, "s", member);
        header.field(SIGNATURE, "g", signature);
    });
    message.align(8);
    message.0.extend(body.0);
    message.0
}

/// How many bytes follow the first 16: of the header, with its padding, and of the body. None if it is no message.
pub(super) fn sizes(start: &[u8; 16]) -> Option<(usize, usize)> {
    let mut reader = Reader { bytes: start, at: 4 };
    let body = usize::try_from(reader.u32()?).ok()?;
    reader.u32()?;
    let fields = usize::try_from(reader.u32()?).ok()?;
    let is_ours = start[0] == b'l' && start[3] == 1 && fields <= MAX_MESSAGE && body <= MAX_MESSAGE;
    is_ours.then(|| (fields.next_multiple_of(8), body))
}

impl BusMessage {
    /// From the first 16 bytes and those that follow, of which `header` belong to the header.
    pub(super) fn parse(start: &[u8; 16], rest: &[u8], header: usize) -> Option<Self> {
        let kind = match start[1] {
            2 => BusMessageKind::Return,
            3 => BusMessageKind::Error,
            4 => BusMessageKind::Signal,
            _ => BusMessageKind::Other,
        };
        let fields_end = usize::try_from(u32::from_le_bytes(start[12..16].try_into().ok()?)).ok()?;
        let (fields, body) = (rest.get(..fields_end)?, rest.get(header..)?.to_vec());
        let (signature, member) = (String::new(), None);
        let mut message = Self { kind, reply_to: None, error_name: None, member, signature, body };
        let mut reader = Reader { bytes: fields, at: 0 };
        while reader.at < fields.len() {
            reader.align(8);
            let number = reader.byte()?;
            match (number, reader.signature()?.as_str()) {
                (REPLY_SERIAL, "u") => message.reply_to = Some(reader.u32()?),
                (ERROR_NAME, "s") => message.error_name = Some(reader.string()?),
                (MEMBER, "s") => message.member = Some(reader.string()?),
                (SIGNATURE, "g") => message.signature = reader.signature()?,
                (_, "u") => drop(reader.u32()?),
                (_, "g") => drop(reader.signature()?),
                (_, "s" | "o") => drop(reader.string()?),
                // No header has others.
                _ => return None,
            }
        }
        Some(message)
    }
}

/// The text that a message begins with, such as an error's.
pub(super) fn body_string(message: &BusMessage) -> Option<String> {
    message.signature.starts_with('s').then(|| Reader { bytes: &message.body, at: 0 }.string())?
}

/// The job that an answer names.
pub(super) fn job_of(message: &BusMessage) -> Option<String> {
    (message.signature == "o").then(|| Reader { bytes: &message.body, at: 0 }.string())?
}

/// The job that a signal says is over, and how it ended.
pub(super) fn removed_job(message: &BusMessage) -> Option<(String, String)> {
    let is_it = message.kind == BusMessageKind::Signal && message.member.as_deref() == Some("JobRemoved");
    if !is_it || message.signature != "uoss" {
        return None;
    }
    let mut reader = Reader { bytes: &message.body, at: 0 };
    reader.u32()?;
    let (job, _unit, result) = (reader.string()?, reader.string()?, reader.string()?);
    Some((job, result))
}

/// Reads values; none beyond the end.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u32(&mut self) -> Option<u32> {
        self.align(4);
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn text(&mut self, length: usize) -> Option<String> {
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.byte()?;
        Some(text)
    }

    fn string(&mut self) -> Option<String> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.text(length)
    }

    fn signature(&mut self) -> Option<String> {
        let length = usize::from(self.byte()?);
        self.text(length)
    }
}
