//! Definitions of MySQL and MariaDB as they become here.

use super::*;
use crate::catalog::Column;
use crate::kind::Kind;

fn table(create: &str, columns: &[(&str, &str, Option<&str>)]) -> Table {
    let column = |(name, ty, collation): &(&str, &str, Option<&str>)| Column {
        name: (*name).to_owned(),
        kind: Kind::of(ty),
        ty: (*ty).to_owned(),
        generated: false,
        collation: collation.map(str::to_owned),
    };
    Table {
        schema: "s".to_owned(),
        name: "t".to_owned(),
        rows: 0,
        bytes: 0,
        transactional: true,
        collation: Some("utf8mb4_general_ci".to_owned()),
        columns: columns.iter().map(column).collect(),
        primary: Vec::new(),
        create: create.to_owned(),
    }
}

#[test]
fn what_is_not_known_is_left_out_and_named() {
    let create = "CREATE TABLE `t` (
  `id` int(10) unsigned zerofill NOT NULL AUTO_INCREMENT,
  `b` binary(16) DEFAULT NULL,
  `d` double(10,2) unsigned DEFAULT 1.50 COMMENT 'a, (b) COMPRESSED',
  `n` varchar(20) CHARACTER SET latin2 COLLATE latin2_czech_cs DEFAULT 'x,\\'y' /*!80023 INVISIBLE */,
  `u` uuid NOT NULL,
  PRIMARY KEY (`id`) USING BTREE,
  KEY `n` (`n`(3),`d`) KEY_BLOCK_SIZE=4 COMMENT 'k' IGNORED,
  FULLTEXT KEY `f` (`n`),
  CONSTRAINT `fk` FOREIGN KEY (`id`) REFERENCES `p` (`a`, `b`) ON DELETE CASCADE
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci ROW_FORMAT=COMPRESSED COMMENT='it''s'
/*!50100 PARTITION BY RANGE (`id`)
(PARTITION p0 VALUES LESS THAN (10) ENGINE = InnoDB) */";
    let found = definition(
        &table(
            create,
            &[
                ("id", "int(10) unsigned zerofill", None),
                ("n", "varchar(20)", Some("latin2_czech_cs")),
            ],
        ),
        "target",
    );
    assert_eq!(
        found.create,
        "CREATE TABLE IF NOT EXISTS `target`.`t` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `b` varbinary(16) DEFAULT NULL,
  `d` double DEFAULT 1.50 COMMENT 'a, (b) COMPRESSED',
  `n` varchar(20) COLLATE utf8mb4_general_ci DEFAULT 'x,\\'y' INVISIBLE,
  `u` char(36) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `n` (`n`(3),`d`) COMMENT 'k' INVISIBLE
) AUTO_INCREMENT=7 COMMENT='it''s' COLLATE=utf8mb4_general_ci"
    );
    assert_eq!(
        found.foreign_keys,
        [(
            "fk".to_owned(),
            "ALTER TABLE `target`.`t` ADD CONSTRAINT `fk` FOREIGN KEY (`id`) REFERENCES `p` (`a`, `b`) ON DELETE CASCADE"
                .to_owned()
        )]
    );
    assert_eq!(
        found.notes,
        [
            "column `id`: ZEROFILL is left out",
            "column `b`: binary(16) becomes varbinary(16)",
            "column `d`: double has no number of digits",
            "column `d`: UNSIGNED is left out",
            "column `n`: collation latin2_czech_cs becomes utf8mb4_general_ci",
            "column `u`: uuid becomes char(36)",
            "the FULLTEXT key `f` is left out",
            "ROW_FORMAT=COMPRESSED is left out",
            "PARTITION BY is left out",
        ]
    );
    assert_eq!(found.unchecked, None);
}

#[test]
fn checks_can_be_left_out_if_the_target_does_not_know_them() {
    let create = "CREATE TABLE `t` (
  `j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`j`)),
  `g` int(11) GENERATED ALWAYS AS (`a` + 1) VIRTUAL,
  CONSTRAINT `c` CHECK (`g` > 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4";
    let found = definition(
        &table(create, &[("j", "longtext", Some("utf8mb4_bin"))]),
        "s",
    );
    assert!(
        found
            .create
            .contains("`j` longtext COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`j`)),"),
        "{}",
        found.create
    );
    assert!(found.create.contains("CONSTRAINT `c` CHECK (`g` > 0)"));
    let (unchecked, checks) = found.unchecked.unwrap_or_default();
    assert!(!unchecked.contains("CHECK"), "{unchecked}");
    assert!(unchecked.contains("`g` int(11) GENERATED ALWAYS AS (`a` + 1) VIRTUAL"));
    assert_eq!(checks, ["of column `j`", "`c`"]);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
}

#[test]
fn programs_lose_their_definer() {
    for (create, expected) in [
        (
            "CREATE ALGORITHM=UNDEFINED DEFINER=`a b`@`%` SQL SECURITY DEFINER VIEW `v` AS select 'DEFINER=x'",
            "CREATE ALGORITHM=UNDEFINED SQL SECURITY DEFINER VIEW `v` AS select 'DEFINER=x'",
        ),
        (
            "CREATE DEFINER=`root`@`localhost` PROCEDURE `p`()\nSELECT 1",
            "CREATE PROCEDURE `p`()\nSELECT 1",
        ),
        (
            "CREATE VIEW `DEFINER` AS select 1",
            "CREATE VIEW `DEFINER` AS select 1",
        ),
    ] {
        let found = program(&Program {
            name: "v".to_owned(),
            create: create.to_owned(),
            modes: String::new(),
        });
        assert_eq!(found, expected);
    }
}
