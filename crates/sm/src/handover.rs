//! Several managers of one subnet: who is master, who stands by, how it passes from one to another.
