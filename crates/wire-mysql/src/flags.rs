//! The flag words of the protocol: what client and server can do (capabilities), the state a
//! response reports (status) and the properties of a column.

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident($repr:ty) { $($(#[$flag_doc:meta])* $flag:ident = $bit:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub $repr);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*

            /// No flag.
            pub const NONE: Self = Self(0);

            /// These flags and `other`'s.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The flags both have.
            #[must_use]
            pub const fn and(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// These flags without `other`'s.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// These flags, and `other`'s if `condition` holds.
            #[must_use]
            pub const fn with_if(self, condition: bool, other: Self) -> Self {
                if condition { self.with(other) } else { self }
            }

            /// True if all of `other`'s flags are set.
            #[must_use]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }
    };
}

flags! {
    /// What one side of a connection can do. A feature is used if both sides have its flag.
    Capabilities(u32) {
        /// Set by every MySQL server and client; its absence would mark a MariaDB server.
        LONG_PASSWORD = 0;
        /// "Affected rows" of an UPDATE counts the rows found, not the rows changed.
        FOUND_ROWS = 1;
        /// Column flags have two bytes.
        LONG_FLAG = 2;
        /// The client names a database when it connects.
        CONNECT_WITH_DB = 3;
        /// Packets may be compressed.
        COMPRESS = 5;
        /// The client sends files for LOAD DATA LOCAL.
        LOCAL_FILES = 7;
        /// Spaces are allowed between a function's name and its parenthesis.
        IGNORE_SPACE = 8;
        /// The protocol since MySQL 4.1; Perigee speaks no other.
        PROTOCOL_41 = 9;
        /// A person types: the interactive timeout holds.
        INTERACTIVE = 10;
        /// The connection turns to TLS before the client names its user.
        SSL = 11;
        /// The client understands the transaction flags of the status.
        TRANSACTIONS = 13;
        /// Passwords are scrambled with a 20-byte nonce.
        SECURE_CONNECTION = 15;
        /// One COM_QUERY may hold several statements.
        MULTI_STATEMENTS = 16;
        /// One COM_QUERY may have several results.
        MULTI_RESULTS = 17;
        /// One execution of a prepared statement may have several results.
        PS_MULTI_RESULTS = 18;
        /// Authentication methods are named.
        PLUGIN_AUTH = 19;
        /// The client sends attributes of itself when it connects.
        CONNECT_ATTRS = 20;
        /// The authentication response may be longer than 255 bytes.
        PLUGIN_AUTH_LENENC = 21;
        /// The client knows that it may have to set a new password before anything else.
        CAN_HANDLE_EXPIRED_PASSWORDS = 22;
        /// A result set ends with an OK packet, and no EOF packet follows its columns.
        DEPRECATE_EOF = 24;
    }
}

flags! {
    /// The state of the session that OK and EOF packets report.
    StatusFlags(u16) {
        /// A transaction is open.
        IN_TRANS = 0;
        /// Autocommit is on.
        AUTOCOMMIT = 1;
        /// Another result follows.
        MORE_RESULTS = 3;
        /// A backslash in a string literal is an ordinary character.
        NO_BACKSLASH_ESCAPES = 9;
    }
}

flags! {
    /// Properties of a column in a result.
    ColumnFlags(u16) {
        /// The column holds no NULL.
        NOT_NULL = 0;
        /// Part of the primary key.
        PRI_KEY = 1;
        /// The whole of a unique key.
        UNIQUE_KEY = 2;
        /// First of a key that is not unique.
        MULTIPLE_KEY = 3;
        /// A BLOB or TEXT.
        BLOB = 4;
        /// No negative numbers.
        UNSIGNED = 5;
        /// Shown with leading zeros.
        ZEROFILL = 6;
        /// Compared by its bytes.
        BINARY = 7;
        /// An ENUM.
        ENUM = 8;
        /// Filled with the next number.
        AUTO_INCREMENT = 9;
        /// A TIMESTAMP.
        TIMESTAMP = 10;
        /// A SET.
        SET = 11;
        /// NOT NULL without a default.
        NO_DEFAULT_VALUE = 12;
        /// Part of some key.
        PART_KEY = 14;
        /// A number. Clients set it by the type; servers do not send it.
        NUM = 15;
    }
}

impl Capabilities {
    /// What Perigee offers always; SSL, too, if the server has a certificate.
    pub const SERVER: Self = Self::LONG_PASSWORD
        .with(Self::FOUND_ROWS)
        .with(Self::LONG_FLAG)
        .with(Self::CONNECT_WITH_DB)
        .with(Self::COMPRESS)
        .with(Self::LOCAL_FILES)
        .with(Self::IGNORE_SPACE)
        .with(Self::PROTOCOL_41)
        .with(Self::INTERACTIVE)
        .with(Self::TRANSACTIONS)
        .with(Self::SECURE_CONNECTION)
        .with(Self::MULTI_STATEMENTS)
        .with(Self::MULTI_RESULTS)
        .with(Self::PLUGIN_AUTH)
        .with(Self::CONNECT_ATTRS)
        .with(Self::PLUGIN_AUTH_LENENC)
        .with(Self::CAN_HANDLE_EXPIRED_PASSWORDS)
        .with(Self::DEPRECATE_EOF);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_the_protocols_values() {
        assert_eq!(Capabilities::PROTOCOL_41.0, 0x200);
        assert_eq!(Capabilities::PLUGIN_AUTH.0, 0x8_0000);
        assert_eq!(Capabilities::DEPRECATE_EOF.0, 0x100_0000);
        assert_eq!(StatusFlags::AUTOCOMMIT.0, 2);
        assert_eq!(StatusFlags::MORE_RESULTS.0, 8);
        assert_eq!(ColumnFlags::BINARY.0, 128);
    }

    #[test]
    fn compression_is_offered_and_tls_only_with_a_certificate() {
        assert!(Capabilities::SERVER.has(Capabilities::COMPRESS));
        assert!(!Capabilities::SERVER.has(Capabilities::SSL));
        assert!(Capabilities::SERVER.has(Capabilities::LOCAL_FILES));
    }
}
