//! Q6: four conditions, one sum of products.

use perigee_expr::{AggregateFunction, Arithmetic, Builder, Comparison, ExprError};
use perigee_ndp::Aggregate;
use perigee_value::RowLayout;

use super::pages::{
    DISCOUNT, EXTENDEDPRICE, Page, QUANTITY, SHIPDATE, day, i32_at, i64_at, offset_of, records,
};
use super::{Answer, Pushed, Query};

/// The query over pages of this layout.
pub fn query(layout: &RowLayout) -> Result<Query, ExprError> {
    let native = Native {
        quantity: offset_of(layout, QUANTITY),
        price: offset_of(layout, EXTENDEDPRICE),
        discount: offset_of(layout, DISCOUNT),
        shipdate: offset_of(layout, SHIPDATE),
        from: day(1994, 1, 1),
        to: day(1995, 1, 1),
    };
    Ok(Query {
        name: "Q6",
        pushed: pushed(layout)?,
        native: Box::new(move |pages| native.run(pages)),
    })
}

fn pushed(layout: &RowLayout) -> Result<Pushed, ExprError> {
    let mut b = Builder::new(layout);
    let (shipdate, discount, quantity) = (
        b.column(SHIPDATE)?,
        b.column(DISCOUNT)?,
        b.column(QUANTITY)?,
    );
    let (from, to) = (b.date(day(1994, 1, 1))?, b.date(day(1995, 1, 1))?);
    let (low, high, most) = (b.decimal(5, 2)?, b.decimal(7, 2)?, b.decimal(2400, 2)?);
    let conditions = vec![
        b.compare(Comparison::GreaterOrEqual, shipdate, from)?,
        b.compare(Comparison::Less, shipdate, to)?,
        b.between(discount, low, high)?,
        b.compare(Comparison::Less, quantity, most)?,
    ];
    let all = b.and(conditions)?;
    let predicate = b.finish(all)?;
    let mut b = Builder::new(layout);
    let (price, discount) = (b.column(EXTENDEDPRICE)?, b.column(DISCOUNT)?);
    let product = b.arithmetic(Arithmetic::Multiply, price, discount)?;
    let aggregate = Aggregate {
        group_by: Vec::new(),
        functions: vec![(AggregateFunction::Sum, Some(b.finish(product)?))],
    };
    Ok((predicate, aggregate))
}

/// What a programmer would write who knows the layout and the query.
struct Native {
    quantity: usize,
    price: usize,
    discount: usize,
    shipdate: usize,
    from: i32,
    to: i32,
}

impl Native {
    fn run(&self, pages: &[Page]) -> Answer {
        let sum = pages.iter().map(|page| self.page(page)).sum();
        Answer::from([(Vec::new(), vec![sum])])
    }

    fn page(&self, page: &Page) -> i128 {
        let mut sum = 0_i128;
        for record in records(page) {
            let shipdate = i32_at(page, record + self.shipdate);
            if shipdate >= self.from && shipdate < self.to {
                let discount = i64_at(page, record + self.discount);
                if (5..=7).contains(&discount) && i64_at(page, record + self.quantity) < 2400 {
                    sum += i128::from(i64_at(page, record + self.price)) * i128::from(discount);
                }
            }
        }
        sum
    }
}
