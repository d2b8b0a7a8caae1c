//! The manager itself: one value that is told of datagrams and time, and says what is to be sent, computed and kept.
