/* reader_steps.c: normalizer, pre_tokenizer and decoder of a tokenizer.json. Each is one object or
 * null; an object has a `type`, and a Sequence holds further ones. */
#include "src/base/mem.h"
#include "src/text/reader.h"

#include <stdio.h>
#include <string.h>

enum { MAX_STEPS = 32 };

/* GPT-2's, which ByteLevel means by use_regex. */
static const char gpt2_words[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                                 " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef struct reading {
    const attn_ctx *ctx;
    const json_t *object;
    char where[64]; /* "pre_tokenizer Split" */
    attn_error *err;
} reading;

typedef attn_status (*read_fn)(const reading *r, attn__step *step);

typedef struct kind {
    const char *name;
    const char *fields; /* besides type */
    attn__step_kind step;
    int number; /* of a family of kinds */
    read_fn read;
} kind;

static attn_status fail(const reading *r, const char *what)
{
    return attn__fail(r->err, ATTN_E_FORMAT, 0, "%s: %s", r->where, what);
}

/* --- Fields that several kinds have --------------------------------------------------------- */

static attn_status take_bool(const reading *r, const char *name, bool *value)
{
    return attn__field_bool(r->object, r->where, name, value, r->err);
}

static attn_status take_text(const reading *r, const char *name, attn__step *step)
{
    const char *text;
    size_t size;

    TRY(attn__field_text(r->object, r->where, name, true, &text, &size, r->err));
    step->text = attn__copy_text(r->ctx, text, size);
    step->size = size;
    return step->text ? ATTN_OK : attn__no_memory(r->err);
}

static attn_status take_character(const reading *r, const char *name, attn__step *step)
{
    TRY(take_text(r, name, step));
    if (step->size == 0 || step->size != attn__utf8_size((unsigned char)step->text[0]))
        return attn__fail(r->err, ATTN_E_FORMAT, 0, "%s: '%s' is not one character", r->where,
                          name);
    return ATTN_OK;
}

/* {"String": "..."} or {"Regex": "..."} */
static attn_status take_pattern(const reading *r, attn__step *step)
{
    const json_t *object = json_object_get(r->object, "pattern");
    const char *text, *regex;
    size_t size, regex_size;

    TRY(attn__fields(object, r->where, "String Regex", r->err));
    TRY(attn__field_text(object, r->where, "String", false, &text, &size, r->err));
    TRY(attn__field_text(object, r->where, "Regex", false, &regex, &regex_size, r->err));
    if (!text == !regex || (text && size == 0))
        return fail(r, "'pattern' is neither a String that is not empty nor a Regex");
    if (text)
        return attn__pattern_string(r->ctx, text, size, &step->pattern, r->err);
    return attn__pattern_regex(r->ctx, r->where, regex, regex_size, &step->pattern, r->err);
}

static attn_status take_regex(const reading *r, const char *regex, attn__step *step)
{
    return attn__pattern_regex(r->ctx, r->where, regex, strlen(regex), &step->pattern, r->err);
}

/* Number of the text of a field among names; left as it is if absent. */
static attn_status take_name(const reading *r, const char *name, const char *const *names,
                             size_t count, size_t *number)
{
    const char *text;
    size_t size;

    TRY(attn__field_text(r->object, r->where, name, false, &text, &size, r->err));
    if (!text)
        return ATTN_OK;
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) {
            *number = i;
            return ATTN_OK;
        }
    return attn__fail(r->err, ATTN_E_FORMAT, 0, "%s: unknown %s '%.40s'", r->where, name, text);
}

static attn_status take_behaviour(const reading *r, attn__step *step)
{
    static const char *const names[] = {
        [ATTN__REMOVED] = "Removed",
        [ATTN__ISOLATED] = "Isolated",
        [ATTN__WITH_PREVIOUS] = "MergedWithPrevious",
        [ATTN__WITH_NEXT] = "MergedWithNext",
        [ATTN__CONTIGUOUS] = "Contiguous",
    };
    size_t number = ATTN__ISOLATED;

    TRY(take_name(r, "behavior", names, sizeof names / sizeof *names, &number));
    step->behaviour = (attn__behaviour)number;
    return ATTN_OK;
}

/* --- Kinds ---------------------------------------------------------------------------------- */

static attn_status read_replace(const reading *r, attn__step *step)
{
    TRY(take_pattern(r, step));
    return take_text(r, "content", step);
}

static attn_status read_prepend(const reading *r, attn__step *step)
{
    return take_text(r, "prepend", step);
}

static attn_status read_strip(const reading *r, attn__step *step)
{
    TRY(take_bool(r, "strip_left", &step->left));
    return take_bool(r, "strip_right", &step->right);
}

static attn_status read_byte_level(const reading *r, attn__step *step)
{
    bool use_regex = true;

    TRY(take_bool(r, "add_prefix_space", &step->space_first));
    TRY(take_bool(r, "use_regex", &use_regex));
    return use_regex ? take_regex(r, gpt2_words, step) : ATTN_OK;
}

static attn_status read_metaspace(const reading *r, attn__step *step)
{
    static const char *const names[] = {
        [ATTN__ALWAYS] = "always", [ATTN__FIRST] = "first", [ATTN__NEVER] = "never"};
    size_t number = ATTN__ALWAYS;
    bool prefix = true;

    TRY(take_character(r, "replacement", step));
    TRY(take_name(r, "prepend_scheme", names, sizeof names / sizeof *names, &number));
    TRY(take_bool(r, "add_prefix_space", &prefix));
    if (!prefix && json_object_get(r->object, "prepend_scheme") && number != ATTN__NEVER)
        return fail(r, "'add_prefix_space' contradicts 'prepend_scheme'");
    step->prepend = prefix ? (attn__prepend)number : ATTN__NEVER;
    step->splits = true;
    return take_bool(r, "split", &step->splits);
}

static attn_status read_split(const reading *r, attn__step *step)
{
    TRY(take_pattern(r, step));
    TRY(take_bool(r, "invert", &step->invert));
    return take_behaviour(r, step);
}

static attn_status read_digits(const reading *r, attn__step *step)
{
    bool single = false;

    TRY(take_bool(r, "individual_digits", &single));
    step->is_in = attn__is_number;
    step->behaviour = single ? ATTN__ISOLATED : ATTN__CONTIGUOUS;
    return ATTN_OK;
}

static attn_status read_punctuation(const reading *r, attn__step *step)
{
    step->is_in = attn__is_punctuation;
    return take_behaviour(r, step);
}

static attn_status read_whitespace(const reading *r, attn__step *step)
{
    step->invert = true;
    step->behaviour = ATTN__REMOVED;
    return take_regex(r, ATTN__WORD "+|(?:(?!" ATTN__WORD ")\\S)+", step);
}

static attn_status read_whitespace_split(const reading *r, attn__step *step)
{
    (void)r;
    step->is_in = attn__is_space;
    step->behaviour = ATTN__REMOVED;
    return ATTN_OK;
}

static attn_status read_delimiter(const reading *r, attn__step *step)
{
    TRY(take_character(r, "delimiter", step));
    step->behaviour = ATTN__REMOVED;
    return attn__pattern_string(r->ctx, step->text, step->size, &step->pattern, r->err);
}

static attn_status read_strip_token(const reading *r, attn__step *step)
{
    TRY(take_character(r, "content", step));
    TRY(attn__field_size(r->object, r->where, "start", true, INT32_MAX, &step->starts, r->err));
    return attn__field_size(r->object, r->where, "stop", true, INT32_MAX, &step->stops, r->err);
}

static attn_status read_suffix(const reading *r, attn__step *step)
{
    TRY(take_text(r, "suffix", step));
    return step->size ? ATTN_OK : fail(r, "'suffix' is empty");
}

#define BYTE_LEVEL_FIELDS "add_prefix_space trim_offsets use_regex"
#define METASPACE_FIELDS "replacement add_prefix_space prepend_scheme split str_rep"

static const kind normalizers[] = {
    {"NFC", "", ATTN__NORMAL_FORM, ATTN__NFC, NULL},
    {"NFD", "", ATTN__NORMAL_FORM, ATTN__NFD, NULL},
    {"NFKC", "", ATTN__NORMAL_FORM, ATTN__NFKC, NULL},
    {"NFKD", "", ATTN__NORMAL_FORM, ATTN__NFKD, NULL},
    {"Lowercase", "", ATTN__LOWERCASE, 0, NULL},
    {"StripAccents", "", ATTN__STRIP_ACCENTS, 0, NULL},
    {"Replace", "pattern content", ATTN__REPLACE, 0, read_replace},
    {"Prepend", "prepend", ATTN__PREPEND, 0, read_prepend},
    {"Strip", "strip_left strip_right", ATTN__STRIP, 0, read_strip},
    {"ByteLevel", "", ATTN__BYTE_LEVEL, 0, NULL},
    {NULL, NULL, ATTN__JOIN, 0, NULL},
};

static const kind pre_tokenizers[] = {
    {"ByteLevel", BYTE_LEVEL_FIELDS, ATTN__BYTE_LEVEL, 0, read_byte_level},
    {"Metaspace", METASPACE_FIELDS, ATTN__METASPACE, 0, read_metaspace},
    {"Split", "pattern behavior invert", ATTN__SPLIT, 0, read_split},
    {"Digits", "individual_digits", ATTN__SPLIT_CLASS, 0, read_digits},
    {"Punctuation", "behavior", ATTN__SPLIT_CLASS, 0, read_punctuation},
    {"Whitespace", "", ATTN__SPLIT, 0, read_whitespace},
    {"WhitespaceSplit", "", ATTN__SPLIT_CLASS, 0, read_whitespace_split},
    {"CharDelimiterSplit", "delimiter", ATTN__SPLIT, 0, read_delimiter},
    {NULL, NULL, ATTN__JOIN, 0, NULL},
};

static const kind decoders[] = {
    {"ByteLevel", BYTE_LEVEL_FIELDS, ATTN__BYTE_LEVEL, 0, NULL},
    {"Metaspace", METASPACE_FIELDS, ATTN__METASPACE, 0, read_metaspace},
    {"ByteFallback", "", ATTN__BYTE_FALLBACK, 0, NULL},
    {"Fuse", "", ATTN__FUSE, 0, NULL},
    {"Strip", "content start stop", ATTN__STRIP_TOKEN, 0, read_strip_token},
    {"Replace", "pattern content", ATTN__REPLACE, 0, read_replace},
    {"BPEDecoder", "suffix", ATTN__SUFFIX, 0, read_suffix},
    {NULL, NULL, ATTN__JOIN, 0, NULL},
};

/* --- Parts ---------------------------------------------------------------------------------- */

typedef struct part {
    const char *name;  /* of the field of the file */
    const char *inner; /* field of a Sequence that holds its steps */
    const kind *kinds;
    const attn_ctx *ctx;
    attn__steps *steps;
} part;

static attn_status read_object(const part *p, const json_t *object, attn_error *err);

static attn_status read_sequence(const part *p, const json_t *object, attn_error *err)
{
    char fields[64];
    const json_t *list;

    snprintf(fields, sizeof fields, "type %s", p->inner);
    TRY(attn__fields(object, p->name, fields, err));
    TRY(attn__field_array(object, p->name, p->inner, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_object(p, json_array_get(list, i), err));
    return ATTN_OK;
}

static attn_status read_kind(const part *p, const kind *k, const json_t *object, attn_error *err)
{
    reading r = {p->ctx, object, "", err};
    char fields[128];
    attn__step *step;

    snprintf(r.where, sizeof r.where, "%s %s", p->name, k->name);
    snprintf(fields, sizeof fields, "type %s", k->fields);
    TRY(attn__fields(object, r.where, fields, err));
    if (p->steps->count == MAX_STEPS)
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: more than %d steps", p->name, MAX_STEPS);
    step = &p->steps->items[p->steps->count++];
    step->kind = k->step;
    step->form = (attn__form)k->number;
    return k->read ? k->read(&r, step) : ATTN_OK;
}

static attn_status read_object(const part *p, const json_t *object, attn_error *err)
{
    const char *type;
    size_t size;

    TRY(attn__field_text(object, p->name, "type", true, &type, &size, err));
    if (strcmp(type, "Sequence") == 0)
        return read_sequence(p, object, err);
    for (const kind *k = p->kinds; k->name; k++)
        if (strcmp(type, k->name) == 0)
            return read_kind(p, k, object, err);
    return attn__fail(err, ATTN_E_FORMAT, 0, "%s: unknown kind '%.60s'", p->name, type);
}

attn_status attn__read_steps(attn_tokenizer *t, const json_t *root, attn_error *err)
{
    const part parts[] = {
        {"normalizer", "normalizers", normalizers, t->ctx, &t->normalizer},
        {"pre_tokenizer", "pretokenizers", pre_tokenizers, t->ctx, &t->splitter},
        {"decoder", "decoders", decoders, t->ctx, &t->decoder},
    };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *object = json_object_get(root, parts[i].name);
        if (!object || json_is_null(object))
            continue;
        parts[i].steps->items = attn__new(t->ctx, MAX_STEPS * sizeof(attn__step));
        if (!parts[i].steps->items)
            return attn__no_memory(err);
        TRY(read_object(&parts[i], object, err));
    }
    return ATTN_OK;
}
