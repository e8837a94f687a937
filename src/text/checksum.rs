//! The checksum of kubelet's checkpoint files: FNV-1a of 32 bits, of the text in which Go's spew shows a structure.

/// The checksum of such a text.
pub(crate) fn checksum_of(text: &str) -> u64 {
    let sum =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u64::from(sum)
}
