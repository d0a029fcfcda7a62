//! Writes what programs do, at random.

use std::fmt::Write;

use perigee_testkit::Rng;

/// How deep statements lie in others.
const DEEPEST: usize = 4;

/// Writes the body of a procedure or a trigger.
pub struct Writer<'r> {
    pub rng: &'r mut Rng,
    pub text: String,
    /// Labels of the loops and blocks around, and whether they are loops.
    pub labels: Vec<(String, bool)>,
    /// Numbers of labels, cursors and counters so far.
    pub last: usize,
    /// How many integer variables there are: `i0`, `i1`, …
    pub integers: usize,
    /// Columns of NEW and OLD that are integers.
    pub row: &'r [&'r str],
    /// NEW may be changed.
    pub changes_row: bool,
}

impl Writer<'_> {
    fn integer(&mut self) -> String {
        format!("i{}", self.rng.between(0, self.integers as i64 - 1))
    }

    /// An expression of an integer.
    fn number(&mut self) -> String {
        match self.rng.between(0, 8) {
            0..=2 => self.rng.between(-20, 120).to_string(),
            3 if self.row.is_empty() || self.rng.chance(2) => "p".to_owned(),
            3 => (*self.rng.choose(self.row)).to_owned(),
            4 => format!("{} + 1", self.integer()),
            5 => format!("{} * 2 - p", self.integer()),
            6 => format!("(SELECT COUNT(*) FROM d WHERE d.v > {})", self.integer()),
            7 => format!("CASE WHEN {} THEN 3 ELSE p END", self.condition()),
            _ => self.integer(),
        }
    }

    fn condition(&mut self) -> String {
        let variable = self.integer();
        match self.rng.between(0, 6) {
            0 => format!("{variable} IS NULL"),
            1 => format!("t LIKE '%{}%'", self.rng.between(0, 9)),
            2 => format!("{variable} IN (1, p, 5)"),
            3 => format!("EXISTS (SELECT 1 FROM d WHERE d.k = {variable})"),
            4 => format!("{variable} = p"),
            _ => format!("{variable} < {}", self.rng.between(-10, 50)),
        }
    }

    pub fn log(&mut self, what: &str) {
        let variable = self.integer();
        let _ = writeln!(
            self.text,
            "INSERT INTO log (what, v, t) VALUES ('{what}', {variable}, t);"
        );
    }

    fn label(&mut self) -> String {
        self.last += 1;
        format!("l{}", self.last)
    }

    pub fn steps(&mut self, depth: usize) {
        for _ in 0..self.rng.between(1, 4) {
            self.step(depth);
        }
    }

    fn step(&mut self, depth: usize) {
        let kind = match depth < DEEPEST {
            true => self.rng.between(0, 17),
            false => self.rng.between(0, 9),
        };
        match kind {
            0 if self.changes_row => {
                let value = self.number();
                let _ = writeln!(self.text, "SET NEW.v = {value};");
            }
            1 if self.changes_row => self.text.push_str("SET NEW.s = t;\n"),
            0 | 1 => {
                let (variable, value) = (self.integer(), self.number());
                let _ = writeln!(self.text, "SET {variable} = {value};");
            }
            2 => {
                let value = self.number();
                let _ = writeln!(self.text, "SET t = CONCAT(LEFT(t, 5), {value}), @u = t;");
            }
            3 => {
                let (a, b) = (self.integer(), self.number());
                let _ = writeln!(
                    self.text,
                    "SELECT d.v, d.s INTO {a}, t FROM d WHERE d.k = {b};"
                );
            }
            4 => {
                let (a, b) = (self.number(), self.integer());
                let _ = writeln!(self.text, "INSERT INTO d VALUES ({a}, {b}, t);");
            }
            5 => {
                let (a, b) = (self.integer(), self.number());
                let _ = writeln!(
                    self.text,
                    "UPDATE d SET v = v + {a}, s = t WHERE d.k < {b} ORDER BY d.k LIMIT {};",
                    self.rng.between(0, 3)
                );
            }
            6 => self.signal(),
            7 => self.jump(),
            8 => self.log("step"),
            9 => {
                let value = self.number();
                let variable = self.integer();
                let _ = writeln!(self.text, "CALL called({value}, {variable});");
            }
            10 | 11 => self.branch(depth),
            12 => self.case(depth),
            13 | 14 => self.looped(depth),
            15 => self.cursor(depth),
            _ => self.block(depth),
        }
    }

    fn signal(&mut self) {
        let state = *self.rng.choose(&["45000", "02000", "01000", "23000"]);
        let number = self.rng.between(1000, 1002);
        let condition = self.condition();
        let _ = writeln!(
            self.text,
            "IF {condition} THEN SIGNAL SQLSTATE '{state}' SET MESSAGE_TEXT = 'own', MYSQL_ERRNO = {number}; END IF;"
        );
    }

    fn jump(&mut self) {
        if self.labels.is_empty() {
            return self.log("no jump");
        }
        let at = self.rng.between(0, self.labels.len() as i64 - 1) as usize;
        let (label, is_loop) = self.labels[at].clone();
        let condition = self.condition();
        let word = if is_loop && self.rng.chance(2) {
            "ITERATE"
        } else {
            "LEAVE"
        };
        let _ = writeln!(self.text, "IF {condition} THEN {word} {label}; END IF;");
    }

    fn branch(&mut self, depth: usize) {
        let condition = self.condition();
        let _ = writeln!(self.text, "IF {condition} THEN");
        self.steps(depth + 1);
        if self.rng.chance(3) {
            let condition = self.condition();
            let _ = writeln!(self.text, "ELSEIF {condition} THEN");
            self.steps(depth + 1);
        }
        if self.rng.chance(2) {
            self.text.push_str("ELSE\n");
            self.steps(depth + 1);
        }
        self.text.push_str("END IF;\n");
    }

    fn case(&mut self, depth: usize) {
        let operand = match self.rng.chance(2) {
            true => self.integer(),
            false => String::new(),
        };
        let _ = writeln!(self.text, "CASE {operand}");
        for _ in 0..self.rng.between(1, 3) {
            let when = match operand.is_empty() {
                true => self.condition(),
                false => self.number(),
            };
            let _ = writeln!(self.text, "WHEN {when} THEN");
            self.steps(depth + 1);
        }
        // Without ELSE error 1339 may be raised.
        if !self.rng.chance(3) {
            self.text.push_str("ELSE\n");
            self.steps(depth + 1);
        }
        self.text.push_str("END CASE;\n");
    }

    /// A loop that ends: its rounds are counted.
    fn looped(&mut self, depth: usize) {
        let label = self.label();
        let counter = format!("@c{}", self.last);
        let rounds = self.rng.between(1, 4);
        let kind = self.rng.between(0, 2);
        let _ = writeln!(self.text, "SET {counter} = 0;");
        let count = format!("SET {counter} = {counter} + 1;");
        let enough = format!("IF {counter} > {rounds} THEN LEAVE {label}; END IF;");
        let head = match kind {
            0 => format!("{label}: LOOP\n{count}\n{enough}\n"),
            1 => format!("{label}: WHILE {counter} < {rounds} DO\n{count}\n"),
            _ => format!("{label}: REPEAT\n{count}\n{enough}\n"),
        };
        self.text.push_str(&head);
        self.labels.push((label.clone(), true));
        self.steps(depth + 1);
        self.labels.pop();
        let condition = self.condition();
        let tail = match kind {
            0 => "END LOOP;\n".to_owned(),
            1 => format!("END WHILE {label};\n"),
            _ => format!("UNTIL {condition} END REPEAT;\n"),
        };
        self.text.push_str(&tail);
    }

    fn handler(&mut self, depth: usize, conditions: &str) {
        let exits = self.rng.chance(2);
        let kind = if exits { "EXIT" } else { "CONTINUE" };
        let _ = writeln!(self.text, "DECLARE {kind} HANDLER FOR {conditions} BEGIN");
        self.text
            .push_str("GET DIAGNOSTICS CONDITION 1 @n = MYSQL_ERRNO, @s = RETURNED_SQLSTATE;\n");
        self.text
            .push_str("INSERT INTO log (what, v, t) VALUES ('handled', @n, @s);\n");
        let labels = std::mem::take(&mut self.labels);
        if depth < DEEPEST && self.rng.chance(3) {
            self.step(depth + 1);
        }
        self.labels = labels;
        if self.rng.chance(6) {
            self.text.push_str("RESIGNAL;\n");
        }
        self.text.push_str("END;\n");
    }

    fn block(&mut self, depth: usize) {
        let label = self.label();
        let _ = writeln!(self.text, "{label}: BEGIN");
        let before = self.integers;
        // A name that hides one of the blocks around, or a new one.
        let hides = self.rng.chance(3);
        let own = if hides {
            self.integer()
        } else {
            format!("i{before}")
        };
        let default = self.number();
        let _ = writeln!(self.text, "DECLARE {own} INT DEFAULT {default};");
        if !hides {
            self.integers += 1;
        }
        let kinds = [
            "SQLEXCEPTION",
            "1062",
            "SQLSTATE '45000', SQLSTATE '23000'",
            "NOT FOUND",
            "SQLWARNING",
        ];
        for kind in kinds {
            if self.rng.chance(4) {
                self.handler(depth + 1, kind);
            }
        }
        self.labels.push((label.clone(), false));
        self.steps(depth + 1);
        self.labels.pop();
        self.integers = before;
        self.log(&label);
        let _ = writeln!(self.text, "END {label};");
    }

    /// A block that reads a cursor to its end.
    fn cursor(&mut self, depth: usize) {
        let label = self.label();
        let name = format!("c{}", self.last);
        let bound = self.integer();
        let _ = writeln!(
            self.text,
            "BEGIN\nDECLARE done INT DEFAULT 0;\nDECLARE ck, cv INT;\nDECLARE {name} CURSOR FOR \
             SELECT d.k, d.v FROM d WHERE d.k > {bound} ORDER BY d.k LIMIT 4;\n\
             DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1;\nOPEN {name};\n{label}: LOOP\n\
             FETCH {name} INTO ck, cv;\nIF done THEN LEAVE {label}; END IF;\n\
             INSERT INTO log (what, v, t) VALUES ('row', cv, ck);"
        );
        if depth + 1 < DEEPEST && self.rng.chance(2) {
            // What it does not find would end the loop, as it does in MySQL.
            self.step(DEEPEST);
        }
        let _ = writeln!(self.text, "END LOOP;\nCLOSE {name};\nEND;");
    }
}
