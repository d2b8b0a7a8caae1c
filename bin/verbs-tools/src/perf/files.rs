//! The files that the results go to besides the terminal. They are opened before the measurement, which may take hours.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Measured, PerfArgs, csv, plot};

/// The files of a command line.
pub struct Files {
    csv: Option<Output>,
    plot: Option<Output>,
    /// Results for the plot, which is drawn at the end.
    measured: Vec<Measured>,
}

/// An open file and its name.
struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    fn create(path: &Path) -> Result<Output, String> {
        let failed = |e| format!("cannot create {}: {}", path.display(), crate::errno::text(&e));
        Ok(Output { path: path.to_owned(), file: File::create(path).map_err(failed)? })
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        let failed = |e| format!("cannot write {}: {}", self.path.display(), crate::errno::text(&e));
        self.file.write_all(text.as_bytes()).map_err(failed)
    }
}

impl Files {
    /// Creates the files.
    pub fn create(args: &PerfArgs) -> Result<Files, String> {
        let mut csv = args.csv.as_deref().map(Output::create).transpose()?;
        if let Some(csv) = &mut csv {
            csv.write(csv::HEAD)?;
        }
        Ok(Files { csv, plot: args.plot.as_deref().map(Output::create).transpose()?, measured: Vec::new() })
    }

    /// Adds a result. Its line is in the file at once, whatever becomes of the next case.
    pub fn add(&mut self, measured: &Measured) -> Result<(), String> {
        if let Some(csv) = &mut self.csv {
            csv.write(&csv::line(measured))?;
        }
        if self.plot.is_some() {
            self.measured.push(measured.clone());
        }
        Ok(())
    }

    /// Draws the plot of all results so far.
    pub fn finish(mut self, caption: String) -> Result<(), String> {
        match &mut self.plot {
            Some(plot) => plot.write(&plot::draw(&self.measured, caption)),
            None => Ok(()),
        }
    }
}
