//! LD_PRELOAD library that checks a program's use of verbs.
