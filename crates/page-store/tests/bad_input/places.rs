//! Names for the places of an encoded descriptor, so that cases need not count bytes. Walks the
//! form that `docs/format/descriptor.md` prescribes, independently of the decoder.

use std::collections::BTreeMap;

use perigee_types::Reader;

/// Offset of each named place.
pub type Places = BTreeMap<String, usize>;

struct Walk<'a> {
    r: Reader<'a>,
    len: usize,
    places: Places,
}

/// The places of a well-formed descriptor.
pub fn of_descriptor(bytes: &[u8]) -> Places {
    let mut walk = Walk {
        r: Reader::new(bytes, "descriptor"),
        len: bytes.len(),
        places: Places::new(),
    };
    walk.descriptor().expect("the base is well-formed");
    walk.places
}

type Walked = Result<(), perigee_types::DecodeError>;

impl Walk<'_> {
    /// Names the place where the walk is.
    fn here(&mut self, name: impl Into<String>) {
        self.places
            .insert(name.into(), self.len - self.r.remaining());
    }

    fn descriptor(&mut self) -> Walked {
        for (name, len) in [
            ("magic", 4),
            ("checksum", 4),
            ("version", 1),
            ("db", 4),
            ("index", 4),
            ("watermark", 8),
            ("reverse", 1),
        ] {
            self.here(name);
            self.r.raw(len)?;
        }
        self.layout()?;
        for name in ["lower", "upper"] {
            self.here(name);
            if self.r.u8()? > 0 {
                self.here(format!("{name}.length"));
                self.r.bytes()?;
            }
        }
        self.here("projection");
        for column in 0..self.r.u16()? {
            self.here(format!("projection.{column}"));
            self.r.u16()?;
        }
        self.optional_program("predicate")?;
        self.here("aggregate");
        if self.r.u8()? == 1 {
            self.aggregate()?;
        }
        self.here("end");
        Ok(())
    }

    fn layout(&mut self) -> Walked {
        self.here("layout");
        self.r.u8()?;
        self.here("layout.clustered");
        let clustered = self.r.u8()? == 1;
        self.here("columns");
        for column in 0..self.r.u16()? {
            self.here(format!("column.{column}"));
            let parameters = match self.r.u8()? {
                1 | 2 => 2,
                3..=5 | 12 | 13 => 0,
                6 | 10 | 11 => 1,
                7 | 8 => 4,
                _ => 3,
            };
            self.r.raw(parameters)?;
            self.here(format!("column.{column}.nullable"));
            self.r.u8()?;
        }
        if clustered {
            self.here("key");
            for part in 0..self.r.u16()? {
                self.here(format!("key.{part}"));
                self.r.u16()?;
            }
        }
        Ok(())
    }

    fn aggregate(&mut self) -> Walked {
        self.here("groups");
        let groups = self.r.u16()?;
        self.here("functions");
        let functions = self.r.u16()?;
        for group in 0..groups {
            self.program(&format!("group.{group}"))?;
        }
        for function in 0..functions {
            self.here(format!("function.{function}"));
            self.r.u8()?;
            self.optional_program(&format!("argument.{function}"))?;
        }
        Ok(())
    }

    fn optional_program(&mut self, name: &str) -> Walked {
        self.here(name);
        if self.r.u8()? == 1 {
            self.program(name)?;
        }
        Ok(())
    }

    fn program(&mut self, name: &str) -> Walked {
        self.here(format!("{name}.version"));
        self.r.u16()?;
        self.here(format!("{name}.nodes"));
        for node in 0..self.r.u16()? {
            self.here(format!("{name}.{node}"));
            self.node()?;
        }
        Ok(())
    }

    fn node(&mut self) -> Walked {
        match self.r.u8()? {
            1 => {
                self.r.u16()?;
                self.ty()
            }
            2 => {
                self.ty()?;
                self.value()
            }
            3 => self.r.raw(5).map(drop),
            4 | 5 => {
                let operands = self.r.u32()?;
                self.r.raw(2 * operands as usize).map(drop)
            }
            6 | 7 | 9 => self.r.u16().map(drop),
            8 => {
                self.r.raw(5)?;
                self.ty()
            }
            10 => {
                self.r.u16()?;
                self.ty()
            }
            11 => {
                self.r.raw(3)?;
                for _ in 0..self.r.u32()? {
                    self.value()?;
                }
                Ok(())
            }
            12 => {
                self.r.raw(6)?;
                self.r.bytes().map(drop)
            }
            13 => self.r.raw(3).map(drop),
            14 => self.r.raw(19).map(drop),
            _ => {
                self.ty()?;
                let branches = self.r.u32()?;
                self.r.raw(4 * branches as usize + 3).map(drop)
            }
        }
    }

    fn ty(&mut self) -> Walked {
        if self.r.u8()? == 4 {
            self.r.u16()?;
        }
        Ok(())
    }

    fn value(&mut self) -> Walked {
        let len = match self.r.u8()? {
            0 => 0,
            1 | 2 | 4 | 6 | 9 => 8,
            3 => 16,
            5 => 4,
            8 => 1,
            10 => 28,
            _ => return self.r.bytes().map(drop),
        };
        self.r.raw(len).map(drop)
    }
}
