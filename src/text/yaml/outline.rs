//! The structure of a text, counted before the parser takes it in: brackets and separators, but not those inside
//! strings and comments.
//!
//! Invariant: never counts less than the parser finds. Its rules are those of libyaml's scanner for what manifests are
//! made of; at anything else it stops telling strings from structure, and counts every byte that could be structure.

mod flow;

use super::SyntaxError;
use super::limits::{MAX_NODES, MAX_OPEN_BRACKETS, TOO_MANY};

/// What was counted so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Count {
    open: usize,
    pub(super) nodes: usize,
}

impl Count {
    fn node(&mut self) -> Result<(), SyntaxError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES { Err(SyntaxError::yaml(TOO_MANY)) } else { Ok(()) }
    }

    fn open(&mut self) -> Result<(), SyntaxError> {
        self.open += 1;
        if self.open > MAX_OPEN_BRACKETS {
            return Err(SyntaxError::yaml("too many brackets are open at once"));
        }
        self.node()
    }

    fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Counts every byte that could be structure. Each node but a document's first stands after one of these.
    pub(super) fn every_byte(&mut self, bytes: &[u8]) -> Result<(), SyntaxError> {
        for (at, byte) in bytes.iter().enumerate() {
            let blank = |next: &u8| next.is_ascii_whitespace() || !next.is_ascii();
            match byte {
                b'[' | b'{' => self.open()?,
                b']' | b'}' => self.close(),
                b',' | b':' => self.node()?,
                // Some of the blanks that end these are not ASCII.
                b'-' | b'?' if bytes.get(at + 1).is_none_or(blank) => self.node()?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Why the scan of a text ends before its end.
enum ScanEnd {
    /// A limit is passed.
    Limit(SyntaxError),
    /// Something that only the parser understands.
    Unusual,
}

impl From<SyntaxError> for ScanEnd {
    fn from(error: SyntaxError) -> Self {
        ScanEnd::Limit(error)
    }
}

/// Counts the structure of a text.
///
/// # Errors
/// When it passes a limit.
pub(super) fn count_structure(text: &str) -> Result<Count, SyntaxError> {
    let mut scan = Scanner { bytes: text.as_bytes(), at: 0, indents: Vec::new(), count: Count::default() };
    // Line breaks and blanks that are not ASCII, and old line ends.
    let odd = |text: &str| {
        let lone_return = text.as_bytes().windows(2).any(|pair| pair[0] == b'\r' && pair[1] != b'\n');
        lone_return
            || text.ends_with('\r')
            || text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}', '\0'])
    };
    let stopped = if odd(text) { Err(ScanEnd::Unusual) } else { scan.text() };
    match stopped {
        Ok(()) => {}
        Err(ScanEnd::Limit(error)) => return Err(error),
        Err(ScanEnd::Unusual) => {
            let rest = scan.rest();
            scan.count.every_byte(rest)?;
        }
    }
    Ok(scan.count)
}

/// Where a token stands: a key may follow at the beginning of a line, but not after another key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenPlace {
    KeyOrValue,
    Value,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The columns of the block collections that are open.
    indents: Vec<usize>,
    count: Count,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next_is_blank(&self) -> bool {
        self.bytes.get(self.at + 1).is_none_or(|next| b" \t\r\n".contains(next))
    }

    /// The least column at which a line still belongs to the scalar before it.
    fn least_column(&self) -> usize {
        self.indents.last().map_or(0, |indent| indent + 1)
    }

    fn open_block(&mut self, column: usize) {
        if self.indents.last().is_none_or(|last| *last < column) {
            self.indents.push(column);
        }
    }

    fn skip(&mut self, blanks: &[u8]) -> usize {
        let skipped = self.rest().iter().take_while(|byte| blanks.contains(byte)).count();
        self.at += skipped;
        skipped
    }

    fn at_line_end(&self) -> bool {
        matches!(self.peek(), None | Some(b'\r' | b'\n'))
    }

    fn skip_line(&mut self) {
        let end = self.rest().iter().position(|byte| *byte == b'\n');
        self.at = end.map_or(self.bytes.len(), |end| self.at + end + 1);
    }

    /// At `---` or `...` alone at the beginning of a line.
    fn at_document_mark(&self) -> bool {
        let rest = self.rest();
        (rest.starts_with(b"---") || rest.starts_with(b"..."))
            && rest.get(3).is_none_or(|next| b" \t\r\n".contains(next))
    }

    fn text(&mut self) -> Result<(), ScanEnd> {
        while self.peek().is_some() {
            self.block_line()?;
        }
        Ok(())
    }

    /// Takes in a line outside of flow collections, and the lines that its last scalar goes on in.
    fn block_line(&mut self) -> Result<(), ScanEnd> {
        let start = self.at;
        if self.at_document_mark() {
            self.at += 3;
            self.count.node()?;
            self.indents.clear();
            return self.line_end();
        }
        let mut column = self.skip(b" ");
        match self.peek() {
            None | Some(b'\r' | b'\n' | b'#') => {
                self.skip_line();
                return Ok(());
            }
            Some(b'%') if column == 0 => return Err(ScanEnd::Unusual),
            _ => {}
        }
        while self.indents.last().is_some_and(|indent| *indent > column) {
            self.indents.pop();
        }
        while self.peek() == Some(b'-') && self.next_is_blank() {
            self.count.node()?;
            self.open_block(column);
            self.at += 1;
            self.skip(b" ");
            if self.at_line_end() || self.peek() == Some(b'#') {
                self.skip_line();
                return Ok(());
            }
            column = self.at - start;
        }
        self.token(TokenPlace::KeyOrValue, column)
    }

    /// Takes in a token outside of flow collections, which stands in a column.
    fn token(&mut self, slot: TokenPlace, column: usize) -> Result<(), ScanEnd> {
        while matches!(self.peek(), Some(b'&' | b'!')) {
            self.property()?;
            if self.skip(b" \t") == 0 && !self.at_line_end() {
                return Err(ScanEnd::Unusual);
            }
        }
        match self.peek() {
            None | Some(b'\r' | b'\n' | b'#') => self.line_end(),
            Some(quote @ (b'"' | b'\'')) => {
                let lines = self.quoted(quote);
                self.skip(b" \t");
                if lines == 0
                    && slot == TokenPlace::KeyOrValue
                    && self.peek() == Some(b':')
                    && self.next_is_blank()
                {
                    return self.value(column);
                }
                self.line_end()
            }
            Some(b'[' | b'{') => {
                self.flow()?;
                self.line_end()
            }
            Some(b'|' | b'>') => self.block_scalar(),
            Some(b'*') => {
                self.property()?;
                self.line_end()
            }
            Some(b'-' | b'?' | b':') if self.next_is_blank() => Err(ScanEnd::Unusual),
            Some(b',' | b']' | b'}' | b'%' | b'@' | b'`' | b'\t') => Err(ScanEnd::Unusual),
            Some(_) => self.plain(slot, column),
        }
    }

    /// After a key: its colon and its value.
    fn value(&mut self, column: usize) -> Result<(), ScanEnd> {
        self.count.node()?;
        self.open_block(column);
        self.at += 1;
        self.skip(b" \t");
        self.token(TokenPlace::Value, column)
    }

    /// Nothing but a comment may follow on a line.
    fn line_end(&mut self) -> Result<(), ScanEnd> {
        self.skip(b" \t");
        if !self.at_line_end() && self.peek() != Some(b'#') {
            return Err(ScanEnd::Unusual);
        }
        self.skip_line();
        Ok(())
    }

    /// An anchor, a tag or an alias.
    fn property(&mut self) -> Result<(), ScanEnd> {
        self.at += 1;
        let word = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-!".contains(byte);
        self.at += self.rest().iter().take_while(word).count();
        match self.peek() {
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | b']' | b'}') => Ok(()),
            Some(_) => Err(ScanEnd::Unusual),
        }
    }

    /// A quoted scalar; tells how many lines it ends.
    fn quoted(&mut self, quote: u8) -> usize {
        self.at += 1;
        let mut lines = 0;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' if quote == b'"' => {
                    lines += usize::from(matches!(self.peek(), Some(b'\r' | b'\n')));
                    self.at += 1;
                }
                b'\n' => lines += 1,
                _ if byte == quote && quote == b'\'' && self.peek() == Some(quote) => self.at += 1,
                _ if byte == quote => break,
                _ => {}
            }
        }
        lines
    }

    /// A plain scalar outside of flow collections, or the key that it is.
    fn plain(&mut self, slot: TokenPlace, column: usize) -> Result<(), ScanEnd> {
        let mut first = true;
        loop {
            let mut blank = false;
            while !self.at_line_end() {
                match self.peek() {
                    Some(b':') if self.next_is_blank() => {
                        let key = first && slot == TokenPlace::KeyOrValue;
                        return if key { self.value(column) } else { Err(ScanEnd::Unusual) };
                    }
                    Some(b'#') if blank => return self.line_end(),
                    byte => blank = matches!(byte, Some(b' ' | b'\t')),
                }
                self.at += 1;
            }
            first = false;
            if !self.goes_on()? {
                return Ok(());
            }
        }
    }

    /// Goes to the next line that holds something, and tells whether a plain scalar goes on in it: if it is indented
    /// further than the collection that the scalar is in.
    fn goes_on(&mut self) -> Result<bool, ScanEnd> {
        loop {
            self.skip_line();
            let line = self.at;
            let indent = self.skip(b" ");
            match self.peek() {
                None => return Ok(false),
                Some(b'\r' | b'\n') => {}
                Some(b'\t') => return Err(ScanEnd::Unusual),
                Some(first) => {
                    let mark = indent == 0 && self.at_document_mark();
                    let goes_on = first != b'#' && indent >= self.least_column() && !mark;
                    if !goes_on {
                        self.at = line;
                    }
                    return Ok(goes_on);
                }
            }
        }
    }

    /// A literal or folded scalar, from its sign to its last line.
    fn block_scalar(&mut self) -> Result<(), ScanEnd> {
        self.at += 1;
        let mut explicit = None;
        for _ in 0..2 {
            match self.peek() {
                Some(b'+' | b'-') => self.at += 1,
                Some(digit @ b'1'..=b'9') if explicit.is_none() => {
                    explicit = Some(usize::from(digit - b'0'));
                    self.at += 1;
                }
                _ => break,
            }
        }
        self.line_end()?;
        let parent = self.indents.last().copied();
        let indent = match explicit {
            Some(more) => parent.unwrap_or(0) + more,
            None => self.leading_spaces().max(self.least_column()).max(1),
        };
        while self.peek().is_some() {
            let line = self.at;
            let spaces = self.rest().iter().take(indent).take_while(|byte| **byte == b' ').count();
            self.at += spaces;
            if spaces < indent && !self.at_line_end() {
                self.at = line;
                break;
            }
            self.skip_line();
        }
        Ok(())
    }

    /// The most spaces at the beginning of the next line that holds something, or of an empty one before it.
    fn leading_spaces(&self) -> usize {
        let mut most = 0;
        for line in self.rest().split(|byte| *byte == b'\n') {
            let spaces = line.iter().take_while(|byte| **byte == b' ').count();
            most = most.max(spaces);
            if !matches!(line.get(spaces), None | Some(b'\r')) {
                break;
            }
        }
        most
    }
}

#[cfg(test)]
mod tests;
