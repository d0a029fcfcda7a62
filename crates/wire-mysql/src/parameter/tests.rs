//! Parameters against packets written by hand from the protocol's description.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn none<'a>(_: usize) -> Option<&'a [u8]> {
    None
}

/// The parameters of one execution that gives its types.
fn decoded(arguments: &[u8], count: usize) -> Result<Vec<Parameter<'_>>, ParameterError> {
    decode(arguments, count, &mut Vec::new(), none)
}

/// The only parameter, of this type.
fn one(code: u8, flags: u8, value: &[u8]) -> Result<Parameter<'static>, ParameterError> {
    let arguments = [&[0, 1, code, flags], value].concat();
    decoded(Box::leak(arguments.into()), 1).map(|parameters| parameters[0])
}

#[test]
fn integers_have_the_width_and_sign_of_their_type() {
    const UNSIGNED: u8 = 0x80;
    for (code, bytes, signed, unsigned) in [
        (1, &b"\xff"[..], -1, 0xFF),
        (2, b"\xfe\xff", -2, 0xFFFE),
        (13, b"\xca\x07", 1994, 1994),
        (3, b"\xfd\xff\xff\xff", -3, 0xFFFF_FFFD),
        (9, b"\x01\0\x80\xff", -8_388_607, 0xFF80_0001),
        (8, b"\0\0\0\0\0\0\0\x80", i64::MIN, 1 << 63),
    ] {
        assert_eq!(one(code, 0, bytes), Ok(Parameter::Int(signed)), "{code}");
        assert_eq!(
            one(code, UNSIGNED, bytes),
            Ok(Parameter::UInt(unsigned)),
            "{code}"
        );
    }
}

#[test]
fn reals_decimals_and_strings() {
    assert_eq!(one(4, 0, b"\0\0\xc0\x3f"), Ok(Parameter::Float(1.5)));
    assert_eq!(
        one(5, 0, &(-0.1f64).to_le_bytes()),
        Ok(Parameter::Double(-0.1))
    );
    for code in [0, 246] {
        assert_eq!(one(code, 0, b"\x04-1.5"), Ok(Parameter::Decimal(b"-1.5")));
    }
    for code in [15, 245, 247, 248, 253, 254] {
        assert_eq!(one(code, 0, b"\x02ab"), Ok(Parameter::Text(b"ab")));
    }
    for code in [16, 249, 250, 251, 252, 255] {
        assert_eq!(one(code, 0, b"\x02\0\xff"), Ok(Parameter::Bytes(b"\0\xff")));
    }
}

#[test]
fn times_leave_out_what_is_zero() {
    let day = Day {
        year: 2010,
        month: 10,
        day: 17,
    };
    let time = TimeOfDay {
        hours: 19,
        minutes: 27,
        seconds: 30,
        micros: 1,
    };
    let whole = b"\x0b\xda\x07\x0a\x11\x13\x1b\x1e\x01\0\0\0";
    for code in [7, 12, 17, 18] {
        let moment = |bytes| one(code, 0, bytes);
        assert_eq!(moment(whole), Ok(Parameter::DateTime(day, time)));
        let without = TimeOfDay { micros: 0, ..time };
        assert_eq!(
            moment(b"\x07\xda\x07\x0a\x11\x13\x1b\x1e"),
            Ok(Parameter::DateTime(day, without))
        );
        let midnight = TimeOfDay::default();
        assert_eq!(
            moment(b"\x04\xda\x07\x0a\x11"),
            Ok(Parameter::DateTime(day, midnight))
        );
        assert_eq!(
            moment(b"\0"),
            Ok(Parameter::DateTime(Day::default(), midnight))
        );
        assert!(moment(b"\x05\xda\x07\x0a\x11\x13").is_err());
    }
    assert_eq!(one(10, 0, whole), Ok(Parameter::Date(day)));
    let minus = Parameter::Time {
        negative: true,
        days: 120,
        time,
    };
    assert_eq!(
        one(11, 0, b"\x0c\x01\x78\0\0\0\x13\x1b\x1e\x01\0\0\0"),
        Ok(minus)
    );
    let minus = Parameter::Time {
        negative: true,
        days: 120,
        time: TimeOfDay { micros: 0, ..time },
    };
    assert_eq!(one(11, 0, b"\x08\x01\x78\0\0\0\x13\x1b\x1e"), Ok(minus));
    let zero = Parameter::Time {
        negative: false,
        days: 0,
        time: TimeOfDay::default(),
    };
    assert_eq!(one(11, 0, b"\0"), Ok(zero));
    assert!(one(11, 0, b"\x04\x01\x78\0\0").is_err());
}

#[test]
fn types_stay_until_others_are_given() {
    let mut types = Vec::new();
    let no_types = decode(b"\0\0\x05", 1, &mut types, none);
    assert_eq!(no_types, Err(ParameterError::Types));
    assert_eq!(
        decode(b"\0\x01\x01\0\x05", 1, &mut types, none),
        Ok(vec![Parameter::Int(5)])
    );
    assert_eq!(
        decode(b"\0\0\x06", 1, &mut types, none),
        Ok(vec![Parameter::Int(6)])
    );
    assert_eq!(
        decode(b"\0\x01\xfd\0\x01x", 1, &mut types, none),
        Ok(vec![Parameter::Text(b"x")])
    );
    assert_eq!(
        decode(b"\0\0\x01y", 1, &mut types, none),
        Ok(vec![Parameter::Text(b"y")])
    );
    // NULL needs no value, whatever its type.
    assert_eq!(
        decode(b"\x01\0", 1, &mut types, none),
        Ok(vec![Parameter::Null])
    );
    assert_eq!(
        decode(b"\0\x01\x63\0", 1, &mut types, none),
        Err(ParameterError::Types)
    );
}

#[test]
fn a_value_sent_in_parts_is_not_in_the_packet() {
    let long = |index| (index == 1).then_some(&b"long"[..]);
    let arguments = b"\0\x01\x01\0\xfc\0\x01\0\x05\x06";
    assert_eq!(
        decode(arguments, 3, &mut Vec::new(), long),
        Ok(vec![
            Parameter::Int(5),
            Parameter::Bytes(b"long"),
            Parameter::Int(6)
        ])
    );
    // Of a type without text it is a text all the same.
    assert_eq!(
        decode(
            b"\0\x01\x01\0\x08\0\x01\0\x05\x06",
            3,
            &mut Vec::new(),
            long
        )
        .unwrap()[1],
        Parameter::Text(b"long")
    );
}

#[test]
fn errors_have_mysqls_numbers() {
    let types = ParameterError::Types.answer();
    assert_eq!(
        (types.errno, types.message.as_str()),
        (1210, "Incorrect arguments to mysqld_stmt_execute")
    );
    let malformed = decoded(b"\0\x01\x03\0\x05", 1).unwrap_err();
    assert_eq!(malformed.answer().errno, 1835);
    assert_eq!(decoded(b"", 0), Ok(Vec::new()));
}

/// A parameter with the type that brings it, as a client writes it.
#[derive(Clone, Debug)]
enum Sent {
    Null,
    Int(i64),
    UInt(u32),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    DateTime(u16, u8, u8, u8, u32),
}

impl Sent {
    fn code(&self) -> [u8; 2] {
        match self {
            Self::Null => [6, 0],
            Self::Int(_) => [8, 0],
            Self::UInt(_) => [3, 0x80],
            Self::Double(_) => [5, 0],
            Self::Text(_) => [253, 0],
            Self::Bytes(_) => [252, 0],
            Self::DateTime(..) => [12, 0],
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => {}
            Self::Int(v) => out.extend(v.to_le_bytes()),
            Self::UInt(v) => out.extend(v.to_le_bytes()),
            Self::Double(v) => out.extend(v.to_le_bytes()),
            Self::Text(text) => {
                out.push(text.len() as u8);
                out.extend(text.as_bytes());
            }
            Self::Bytes(bytes) => {
                out.push(0xFC);
                out.extend((bytes.len() as u16).to_le_bytes());
                out.extend(bytes);
            }
            Self::DateTime(year, month, day, hours, micros) => {
                out.push(11);
                out.extend(year.to_le_bytes());
                out.extend([*month, *day, *hours, 0, 0]);
                out.extend(micros.to_le_bytes());
            }
        }
    }

    fn expected(&self) -> Parameter<'_> {
        match self {
            Self::Null => Parameter::Null,
            Self::Int(v) => Parameter::Int(*v),
            Self::UInt(v) => Parameter::UInt(u64::from(*v)),
            Self::Double(v) => Parameter::Double(*v),
            Self::Text(text) => Parameter::Text(text.as_bytes()),
            Self::Bytes(bytes) => Parameter::Bytes(bytes),
            Self::DateTime(year, month, day, hours, micros) => Parameter::DateTime(
                Day {
                    year: *year,
                    month: *month,
                    day: *day,
                },
                TimeOfDay {
                    hours: *hours,
                    micros: *micros,
                    ..TimeOfDay::default()
                },
            ),
        }
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        Just(Sent::Null),
        any::<i64>().prop_map(Sent::Int),
        any::<u32>().prop_map(Sent::UInt),
        (-1e300..1e300f64).prop_map(Sent::Double),
        "[a-z\u{e9}]{0,20}".prop_map(Sent::Text),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Sent::Bytes),
        any::<(u16, u8, u8, u8, u32)>().prop_map(|(y, m, d, h, f)| Sent::DateTime(y, m, d, h, f)),
    ]
}

/// The arguments of an execution, with the types or without.
fn arguments(parameters: &[Sent], with_types: bool) -> Vec<u8> {
    let mut out = vec![0; parameters.len().div_ceil(8)];
    for (index, parameter) in parameters.iter().enumerate() {
        if matches!(parameter, Sent::Null) {
            out[index / 8] |= 1 << (index % 8);
        }
    }
    out.push(u8::from(with_types));
    if with_types {
        out.extend(parameters.iter().flat_map(Sent::code));
    }
    parameters
        .iter()
        .for_each(|parameter| parameter.write(&mut out));
    out
}

proptest! {
    #[test]
    fn parameters_survive(parameters in prop::collection::vec(sent(), 1..30)) {
        let mut types = Vec::new();
        let expected: Vec<_> = parameters.iter().map(Sent::expected).collect();
        for with_types in [true, false] {
            let bytes = arguments(&parameters, with_types);
            let got = decode(&bytes, parameters.len(), &mut types, none);
            prop_assert_eq!(got.as_deref(), Ok(&expected[..]));
        }
        let bytes = arguments(&parameters, true);
        for cut in 0..bytes.len() {
            let got = decode(&bytes[..cut], parameters.len(), &mut Vec::new(), none);
            prop_assert!(got.is_err(), "cut at {}", cut);
        }
    }
}
