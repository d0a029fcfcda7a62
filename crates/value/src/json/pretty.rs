//! JSON_PRETTY: a value on several lines.

use super::Json;

/// Spaces of a level.
const INDENT: usize = 2;

impl Json {
    /// The value with each element and member on a line of its own.
    #[must_use]
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.append_pretty(0, &mut out);
        out
    }

    fn append_pretty(&self, level: usize, out: &mut String) {
        match self {
            Self::Array(elements) if !elements.is_empty() => {
                out.push('[');
                for (place, element) in elements.iter().enumerate() {
                    new_line(place > 0, level + 1, out);
                    element.append_pretty(level + 1, out);
                }
                new_line(false, level, out);
                out.push(']');
            }
            Self::Object(members) if !members.is_empty() => {
                out.push('{');
                for (place, (name, member)) in members.iter().enumerate() {
                    new_line(place > 0, level + 1, out);
                    out.push_str(&Self::String(name.to_owned()).to_string());
                    out.push_str(": ");
                    member.append_pretty(level + 1, out);
                }
                new_line(false, level, out);
                out.push('}');
            }
            other => out.push_str(&other.to_string()),
        }
    }
}

fn new_line(comma: bool, level: usize, out: &mut String) {
    out.push_str(if comma { ",\n" } else { "\n" });
    out.extend(std::iter::repeat_n(' ', INDENT * level));
}
