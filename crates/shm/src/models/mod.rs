//! Ring and doorbell under loom: two threads in every order that the memory model permits.

mod doorbell;
mod ring;
