//! Limits of programs. They bound what a program sent to a shared Page Store can cost: the memory
//! it takes, the stack its evaluation needs and the work per record.

/// Nodes of a program.
pub const MAX_NODES: usize = 4096;

/// Operands of all nodes together.
pub const MAX_OPERANDS: usize = 16_384;

/// Nodes on a path from the root to a leaf. The interpreter recurses this deep; 256 frames of
/// under 1 KiB (unoptimised) leave a thread's stack of 2 MiB alone.
pub const MAX_DEPTH: usize = 256;

/// Constants of one IN list.
pub const MAX_IN_LIST: usize = 131_072;

/// Bytes of a string constant.
pub const MAX_STRING: usize = 65_535;

/// Bytes of a LIKE pattern; matching costs text length times this at worst.
pub const MAX_PATTERN: usize = 1024;

/// Bytes of an encoded program.
pub const MAX_ENCODED: usize = 16 << 20;
