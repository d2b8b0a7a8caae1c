//! (replaced below)
