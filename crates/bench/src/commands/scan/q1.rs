//! Q1: nearly all rows, in four groups, with eight aggregates.

use perigee_expr::{AggregateFunction, Arithmetic, Builder, Comparison, ExprError, Program};
use perigee_ndp::Aggregate;
use perigee_types::PAGE_SIZE;
use perigee_value::RowLayout;

use super::pages::{
    DISCOUNT, EXTENDEDPRICE, LINESTATUS, Page, QUANTITY, RETURNFLAG, SHIPDATE, TAX, day, i32_at,
    i64_at, item_of, offset_of, records, u16_at,
};
use super::{Answer, Pushed, Query};

/// The query over pages of this layout.
pub fn query(layout: &RowLayout) -> Result<Query, ExprError> {
    let native = Native {
        quantity: offset_of(layout, QUANTITY),
        price: offset_of(layout, EXTENDEDPRICE),
        discount: offset_of(layout, DISCOUNT),
        tax: offset_of(layout, TAX),
        shipdate: offset_of(layout, SHIPDATE),
        flag: item_of(layout, RETURNFLAG),
        status: item_of(layout, LINESTATUS),
        to: last_day(),
    };
    Ok(Query {
        name: "Q1",
        pushed: pushed(layout)?,
        native: Box::new(move |pages| native.run(pages)),
    })
}

fn last_day() -> i32 {
    day(1998, 12, 1) - 90
}

fn pushed(layout: &RowLayout) -> Result<Pushed, ExprError> {
    let mut b = Builder::new(layout);
    let (shipdate, to) = (b.column(SHIPDATE)?, b.date(last_day())?);
    let condition = b.compare(Comparison::LessOrEqual, shipdate, to)?;
    let predicate = b.finish(condition)?;
    let sum = |program| (AggregateFunction::Sum, Some(program));
    let aggregate = Aggregate {
        group_by: vec![column(layout, RETURNFLAG)?, column(layout, LINESTATUS)?],
        functions: vec![
            sum(column(layout, QUANTITY)?),
            sum(column(layout, EXTENDEDPRICE)?),
            sum(price(layout, false)?),
            sum(price(layout, true)?),
            sum(column(layout, DISCOUNT)?),
            (AggregateFunction::Count, Some(column(layout, QUANTITY)?)),
            (AggregateFunction::Count, Some(column(layout, DISCOUNT)?)),
            (AggregateFunction::CountAll, None),
        ],
    };
    Ok((predicate, aggregate))
}

fn column(layout: &RowLayout, column: u16) -> Result<Program, ExprError> {
    let mut b = Builder::new(layout);
    let root = b.column(column)?;
    b.finish(root)
}

/// The discounted price, with or without tax.
fn price(layout: &RowLayout, with_tax: bool) -> Result<Program, ExprError> {
    let mut b = Builder::new(layout);
    let (price, discount, one) = (b.column(EXTENDEDPRICE)?, b.column(DISCOUNT)?, b.int(1)?);
    let rest = b.arithmetic(Arithmetic::Subtract, one, discount)?;
    let mut root = b.arithmetic(Arithmetic::Multiply, price, rest)?;
    if with_tax {
        let tax = b.column(TAX)?;
        let factor = b.arithmetic(Arithmetic::Add, one, tax)?;
        root = b.arithmetic(Arithmetic::Multiply, root, factor)?;
    }
    b.finish(root)
}

/// What a programmer would write who knows the layout and the query.
struct Native {
    quantity: usize,
    price: usize,
    discount: usize,
    tax: usize,
    shipdate: usize,
    /// Where the ends of the items are.
    flag: usize,
    status: usize,
    to: i32,
}

/// Sums by the two letters of a group.
type Groups = Vec<Option<Box<[i128; 8]>>>;

impl Native {
    fn run(&self, pages: &[Page]) -> Answer {
        let mut groups: Groups = vec![None; 1 << 16];
        for page in pages {
            self.page(page, &mut groups);
        }
        let found = (0..=u16::MAX).zip(groups);
        found
            .filter_map(|(key, sums)| {
                let letters = key.to_be_bytes().map(|letter| vec![letter]);
                Some((letters.to_vec(), sums?.to_vec()))
            })
            .collect()
    }

    fn page(&self, page: &Page, groups: &mut Groups) {
        for record in records(page) {
            if i32_at(page, record + self.shipdate) > self.to {
                continue;
            }
            let letter = |end: usize| page[(record + u16_at(page, record + end) - 1) % PAGE_SIZE];
            let key = u16::from_be_bytes([letter(self.flag), letter(self.status)]);
            let number = |offset| i64_at(page, record + offset);
            let (quantity, price) = (number(self.quantity), number(self.price));
            let discount = number(self.discount);
            let net = i128::from(price) * i128::from(100 - discount);
            let sums = groups[usize::from(key)].get_or_insert_default();
            let terms = [
                quantity.into(),
                price.into(),
                net,
                net * i128::from(100 + number(self.tax)),
                discount.into(),
                1,
                1,
                1,
            ];
            for (sum, term) in sums.iter_mut().zip(terms) {
                *sum += term;
            }
        }
    }
}
