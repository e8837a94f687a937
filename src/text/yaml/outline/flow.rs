//! Flow collections: what stands in brackets and braces.

use super::{ScanEnd, Scanner};

impl Scanner<'_> {
    /// A flow collection with all that is in it.
    pub(super) fn flow(&mut self) -> Result<(), ScanEnd> {
        let mut depth = 0_usize;
        loop {
            self.skip(b" \t\r\n");
            if self.at_line_start() && (self.at_document_mark() || self.peek() == Some(b'%')) {
                return Err(ScanEnd::Unusual);
            }
            match self.peek() {
                None => return Ok(()),
                Some(b'[' | b'{') => {
                    depth += 1;
                    self.count.open()?;
                    self.at += 1;
                }
                Some(b']' | b'}') => {
                    self.count.close();
                    self.at += 1;
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                Some(b',' | b':') => {
                    self.count.node()?;
                    self.at += 1;
                }
                Some(b'#') => self.skip_line(),
                Some(quote @ (b'"' | b'\'')) => {
                    self.quoted(quote);
                }
                Some(b'&' | b'!' | b'*') => self.property()?,
                Some(b'-') if self.next_is_blank() => return Err(ScanEnd::Unusual),
                Some(b'?' | b'|' | b'>' | b'%' | b'@' | b'`') => return Err(ScanEnd::Unusual),
                Some(_) => self.plain_in_flow()?,
            }
        }
    }

    fn at_line_start(&self) -> bool {
        self.at == 0 || self.bytes.get(self.at - 1) == Some(&b'\n')
    }

    fn plain_in_flow(&mut self) -> Result<(), ScanEnd> {
        let mut blank = false;
        while let Some(byte) = self.peek() {
            match byte {
                b',' | b'[' | b']' | b'{' | b'}' => break,
                b':' if self.next_is_blank() => break,
                b'#' if blank => break,
                b'-' | b'.' if self.at_line_start() && self.at_document_mark() => {
                    return Err(ScanEnd::Unusual);
                }
                _ => blank = b" \t\r\n".contains(&byte),
            }
            self.at += 1;
        }
        Ok(())
    }
}
