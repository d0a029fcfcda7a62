//! Stored programs: what a procedure or a trigger consists of, and how its text is read.
//!
//! The statements in it stay the tokens that they are, with the places where local variables stand: when one runs,
//! literals take these places, as with the parameters of prepared statements. Names are found when the text is read:
//! each variable, cursor and handler is known by its number from then on.

mod code;
mod condition;
mod create;
mod expression;
mod extent;
mod scope;
mod steps;
mod trigger;

pub use code::{Code, Slot};
pub use condition::{Condition, Diagnostic, Information, Items, Signal, Signalled};
pub use create::{AlterRoutine, CreateRoutine};
pub(super) use create::{alter, begins, create, drop};
pub(super) use extent::extent;
pub(super) use steps::{call, outside};
pub use trigger::{CreateTrigger, Order, RowColumn, RowOf};

use super::ProgramStatement;
use sqlparser::ast::{ColumnDef, ObjectName};

/// A parameter's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// IN.
    In,
    /// OUT.
    Out,
    /// INOUT.
    InOut,
}

impl Mode {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "IN",
            Self::Out => "OUT",
            Self::InOut => "INOUT",
        }
    }
}

/// A parameter: a variable of the outermost block.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Direction.
    pub mode: Mode,
    /// Name and type, as those of a column.
    pub column: ColumnDef,
}

/// The code of a procedure or a trigger.
#[derive(Debug)]
pub struct Program {
    /// The parameters; they are the first variables.
    pub parameters: Vec<Parameter>,
    /// What it does.
    pub body: Step,
    /// How many variables there are.
    pub variables: usize,
    /// How many cursors there are.
    pub cursors: usize,
    /// The columns that a trigger names; they are the first variables.
    pub row: Vec<RowColumn>,
}

/// What a value is given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A variable of the program.
    Local(Slot),
    /// A user variable, in lower case.
    User(String),
}

/// An argument of CALL.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its value.
    pub value: Code,
    /// The variable that it is, if it is one.
    pub variable: Option<Target>,
}

/// CALL.
#[derive(Clone, Debug)]
pub struct Call {
    /// The procedure.
    pub name: ObjectName,
    /// The arguments.
    pub arguments: Vec<Argument>,
}

/// A loop's condition, and where it is looked at.
#[derive(Debug)]
pub enum Until {
    /// LOOP: never.
    Left,
    /// WHILE, before each round.
    Not(Code),
    /// REPEAT, after each round.
    Holds(Code),
}

/// A statement of a program.
#[derive(Debug)]
pub enum Step {
    /// BEGIN … END.
    Block(Box<Block>),
    /// IF and CASE: the steps of the first condition that holds, or the others. A CASE without ELSE has none of these.
    If {
        /// Conditions and steps.
        branches: Vec<(Code, Vec<Self>)>,
        /// What is done otherwise; `None` is error 1339.
        otherwise: Option<Vec<Self>>,
    },
    /// LOOP, WHILE and REPEAT.
    Loop {
        /// Its number.
        label: Label,
        /// When it ends.
        until: Until,
        /// The steps of a round.
        steps: Vec<Self>,
    },
    /// LEAVE.
    Leave(Label),
    /// ITERATE.
    Iterate(Label),
    /// SET of variables of the program, and of user variables beside them.
    Assign(Vec<(Target, Code)>),
    /// SELECT … INTO.
    Into(Code, Vec<Target>),
    /// OPEN.
    Open(usize),
    /// FETCH.
    Fetch(usize, Vec<Slot>),
    /// CLOSE.
    Close(usize),
    /// CALL.
    Call(Box<Call>),
    /// SIGNAL and RESIGNAL.
    Signal(Box<Signal>),
    /// GET DIAGNOSTICS.
    Diagnostics(Box<Information>),
    /// Any other statement.
    Statement(Code),
}

/// The number of a block or loop, which LEAVE and ITERATE name.
pub type Label = usize;

/// BEGIN … END.
#[derive(Debug)]
pub struct Block {
    /// Its number.
    pub label: Label,
    /// Variables, with their types and defaults, in this order.
    pub variables: Vec<Declared>,
    /// Cursors with their queries.
    pub cursors: Vec<(usize, Code)>,
    /// Handlers.
    pub handlers: Vec<Handler>,
    /// What it does.
    pub steps: Vec<Step>,
}

/// DECLARE of variables.
#[derive(Debug)]
pub struct Declared {
    /// The variables, with their names and types, as those of columns.
    pub variables: Vec<(Slot, ColumnDef)>,
    /// What they are at first.
    pub default: Option<Code>,
}

/// DECLARE … HANDLER.
#[derive(Debug)]
pub struct Handler {
    /// EXIT: its block ends; CONTINUE: it goes on.
    pub exits: bool,
    /// What it is for.
    pub conditions: Vec<Condition>,
    /// What it does.
    pub body: Step,
}
