//! Reference figures of OpenSM 3.3.23's tables on named fabrics, measured with [`super::quality`]: upper bounds for
//! Weft's engines.

/// The best figures of all OpenSM engines on a fabric, each on its own, including engines with credit loops.
pub struct Best {
    /// The fabric.
    pub fabric: &'static str,
    /// All-to-all load of the worst link, and the engine.
    pub all_to_all: (u64, &'static str),
    /// Mean over shift permutations of the worst link's load, and the engine.
    pub shift: (f64, &'static str),
}

const fn best(fabric: &'static str, all: u64, by: &'static str, shift: f64, shift_by: &'static str) -> Best {
    Best { fabric, all_to_all: (all, by), shift: (shift, shift_by) }
}

/// By fabric. A trailing x means random GUIDs.
pub const BEST: &[Best] = &[
    best("ft64", 48, "ftree", 1.0, "ftree"),
    best("ft324", 306, "ftree", 1.0, "ftree"),
    best("ft324x", 306, "ftree", 1.0, "ftree"),
    best("ft648", 630, "ftree", 1.0, "ftree"),
    best("ft648x", 630, "ftree", 1.0, "ftree"),
    best("ft1728", 1716, "ftree", 1.0, "ftree"),
    best("ft1728x", 1716, "ftree", 1.40, "ftree"),
    best("ft1944", 1926, "ftree", 1.0, "ftree"),
    best("ft1944x", 1926, "ftree", 1.24, "ftree"),
    best("ft2048", 2016, "ftree", 1.0, "ftree"),
    best("ft2048x", 2016, "ftree", 1.0, "ftree"),
    best("ft5832", 5814, "ftree", 1.0, "ftree"),
    best("ft5832x", 5814, "ftree", 1.23, "ftree"),
    best("t444", 48, "torus-2QoS", 1.78, "torus-2QoS"),
    best("t1616", 576, "torus-2QoS", 5.65, "torus-2QoS"),
    best("t888", 640, "torus-2QoS", 3.29, "torus-2QoS"),
    best("t888h4", 10240, "dor, loops", 12.77, "dor, loops"),
    best("df264", 88, "lash", 5.24, "minhop, loops"),
    best("df1056", 1472, "lash", 19.48, "minhop, loops"),
    best("rnd10", 22, "dfsssp", 2.74, "dfsssp"),
    best("rnd64", 528, "nue", 9.55, "nue"),
];

/// OpenSM's nue: fabric, VLs, worst all-to-all link load, mean worst link load of shifts.
pub const NUE: &[(&str, u8, u64, f64)] = &[
    ("ft324", 1, 504, 4.17),
    ("ft648", 1, 1026, 3.09),
    ("ft1728", 1, 2928, 4.66),
    ("ft1944", 1, 3168, 4.40),
    ("ft2048", 1, 3360, 3.18),
    ("t444", 1, 185, 4.57),
    ("t444", 8, 56, 3.02),
    ("t1616", 1, 4630, 24.07),
    ("t1616", 8, 3497, 15.92),
    ("t888", 1, 43692, 94.48),
    ("t888", 8, 5130, 16.47),
    ("t888h4", 1, 794_560, 417.60),
    ("t888h4", 8, 168_500, 111.63),
    ("df264", 1, 220, 5.66),
    ("df264", 8, 88, 5.51),
    ("df1056", 1, 5708, 22.72),
    ("df1056", 8, 3196, 21.07),
    ("rnd10", 1, 22, 2.84),
    ("rnd10", 8, 22, 2.84),
    ("rnd64", 1, 1964, 13.15),
    ("rnd64", 8, 528, 9.55),
];
