-- columns
--   say "it's": string
--   -- comment: int not null
--   {y} :z ? $: string
-- rules
--   'cast:-- comment'
--   'not_null:-- comment'
--   'filter:say "it\'s" != \\\'; DROP TABLE t; --'
--   'filter:{y} :z ? $ in (", `, \x00001, ${env:HOME}, */, é\u2028)'
-- order by
-- unused
--   'back\\slash'
-- missing
WITH inputs AS (
  SELECT
    `x``, 1 AS ``y` AS `_neve_of_x``, 1 AS ``y`,
    `a.b` AS `_neve_of_a.b`,
    `'; DROP TABLE t; --` AS `_neve_of_'; DROP TABLE t; --`,
    `back\slash` AS `_neve_of_back\slash`,
    `_source_file`,
    `_source_line`,
    `_ingest_date`,
    `_neve_corrupt`,
    CAST(`x``, 1 AS ``y` AS STRING) AS `_neve_in_say "it's"`,
    CAST(`a.b` AS STRING) AS `_neve_in_-- comment`,
    CAST(`'; DROP TABLE t; --` AS STRING) AS `_neve_in_{y} :z ? $`
  FROM source
), typed AS (
  SELECT
    *,
    COALESCE(
      TRY_CAST(`_neve_in_-- comment` AS INT),
      TRY_CAST(IF(
        `_neve_in_-- comment` RLIKE '^\\s*[+-]?([0-9]*(\\.0*)?|0*\\.?0*[eE][+-]?[0-9]+)\\s*$'
        OR LENGTH(
          REGEXP_EXTRACT(
            `_neve_in_-- comment`,
            '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$',
            1
          )
        ) - TRY_CAST(REGEXP_EXTRACT(
          `_neve_in_-- comment`,
          '^\\s*[+-]?[0-9]+(?:\\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\\s*$',
          2
        ) AS INT) <= 0,
        TRY_CAST(`_neve_in_-- comment` AS DECIMAL(38, 0)),
        NULL
      ) AS INT)
    ) AS `_neve_as_-- comment`
  FROM inputs
), judged AS (
  SELECT
    *,
    IF(
      (
        `_neve_as_-- comment` IS NULL AND TRIM(`_neve_in_-- comment`) <> ''
      )
      OR `_neve_as_-- comment` IS NULL
      OR NOT COALESCE(
        COALESCE(`_neve_in_say "it's"`, '\'; DROP TABLE t; -- \\') <> '\\\'; DROP TABLE t; --',
        FALSE
      )
      OR NOT COALESCE(
        `_neve_in_{y} :z ? $` IN ('"', '`', CONCAT(CHR(0), '001'), CONCAT('$', '{env:HOME}'), '*/', 'é '),
        FALSE
      ),
      ARRAY_REMOVE(
        ARRAY(
          IF(
            `_neve_as_-- comment` IS NULL AND TRIM(`_neve_in_-- comment`) <> '',
            'cast:-- comment',
            ''
          ),
          IF(`_neve_as_-- comment` IS NULL, 'not_null:-- comment', ''),
          IF(
            NOT COALESCE(
              COALESCE(`_neve_in_say "it's"`, '\'; DROP TABLE t; -- \\') <> '\\\'; DROP TABLE t; --',
              FALSE
            ),
            'filter:say "it\'s" != \\\'; DROP TABLE t; --',
            ''
          ),
          IF(
            NOT COALESCE(
              `_neve_in_{y} :z ? $` IN ('"', '`', CONCAT(CHR(0), '001'), CONCAT('$', '{env:HOME}'), '*/', 'é '),
              FALSE
            ),
            CONCAT('filter:{y} :z ? $ in (", `, ', CHR(0), '001, $', '{env:HOME}, */, é )'),
            ''
          )
        ),
        ''
      ),
      NULL
    ) AS `_neve_rejected`
  FROM typed
)
SELECT
  COALESCE(`_neve_in_say "it's"`, '\'; DROP TABLE t; -- \\') AS `say "it's"`,
  `_neve_as_-- comment` AS `-- comment`,
  `_neve_in_{y} :z ? $` AS `{y} :z ? $`,
  `_source_file`,
  `_source_line`,
  `_ingest_date`,
  `_neve_corrupt`,
  `_neve_rejected`,
  IF(
    NOT `_neve_rejected` IS NULL,
    TO_JSON(
      NAMED_STRUCT(
        'x`, 1 AS `y',
        `_neve_of_x``, 1 AS ``y`,
        'a.b',
        `_neve_of_a.b`,
        '\'; DROP TABLE t; --',
        `_neve_of_'; DROP TABLE t; --`,
        'back\\slash',
        `_neve_of_back\slash`
      ),
      MAP('ignoreNullFields', 'false')
    ),
    NULL
  ) AS `_neve_raw`
FROM judged
