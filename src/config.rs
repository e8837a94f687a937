//! Flags, KubeletConfiguration and drop-ins become one validated `Config`.
