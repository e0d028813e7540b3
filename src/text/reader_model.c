/* reader_model.c: vocabulary, merges, added tokens and the frame of a tokenizer.json. */
#include "src/base/mem.h"
#include "src/text/reader.h"

#include <stdio.h>
#include <string.h>

enum {
    SPARE_IDS = 1 << 16, /* ids without a token that a file may have, besides as many as tokens */
    MAX_ADDED_TEXT = 1024
};

static attn_status refuse(attn_error *err, const char *where, const char *text, const char *why)
{
    return attn__fail(err, ATTN_E_FORMAT, 0, "%s: '%.60s' %s", where, text, why);
}

/* --- Vocabulary ----------------------------------------------------------------------------- */

/* Largest id a file with so many tokens may use. */
static size_t largest_id(size_t tokens)
{
    return 2 * tokens + SPARE_IDS;
}

static attn_status read_vocabulary(attn_tokenizer *t, const json_t *vocab, size_t extra,
                                   attn_error *err)
{
    json_t *fields = (json_t *)(uintptr_t)vocab;
    size_t count = json_object_size(vocab), most = largest_id(count + extra), number = 0;
    const char *name;
    json_t *value;
    bool added;

    t->model.ids = attn__alloc(t->ctx, count * sizeof *t->model.ids);
    if (!t->model.ids)
        return attn__no_memory(err);
    json_object_foreach(fields, name, value)
    {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || (uint64_t)id > most)
            return attn__fail(err, ATTN_E_FORMAT, 0,
                              "model vocab: the id of '%.60s' is no whole number of 0 to %zu", name,
                              most);
        if (attn__strings_add(&t->model.names, name, strlen(name), &added) == ATTN__NONE)
            return attn__no_memory(err);
        t->model.ids[number++] = (uint32_t)id;
        if ((size_t)id >= t->id_count)
            t->id_count = (size_t)id + 1;
    }
    return ATTN_OK;
}

static uint32_t id_of(const attn_tokenizer *t, const char *text, size_t size)
{
    uint32_t name = attn__strings_find(&t->model.names, text, size);

    return name == ATTN__NONE ? ATTN__NONE : t->model.ids[name];
}

/* --- Merges --------------------------------------------------------------------------------- */

typedef struct merge {
    const char *left, *right;
    size_t left_size, right_size;
} merge;

/* "a b" or ["a", "b"]. */
static attn_status split_merge(const json_t *item, size_t number, merge *m, attn_error *err)
{
    const char *blank;

    if (json_is_array(item) && json_array_size(item) == 2 &&
        json_is_string(json_array_get(item, 0)) && json_is_string(json_array_get(item, 1))) {
        m->left = json_string_value(json_array_get(item, 0));
        m->left_size = json_string_length(json_array_get(item, 0));
        m->right = json_string_value(json_array_get(item, 1));
        m->right_size = json_string_length(json_array_get(item, 1));
        return ATTN_OK;
    }
    m->left = json_string_value(item);
    blank = m->left ? strchr(m->left, ' ') : NULL;
    if (!blank || strchr(blank + 1, ' '))
        return attn__fail(err, ATTN_E_FORMAT, 0, "model merges: entry %zu is not a pair of tokens",
                          number);
    m->left_size = (size_t)(blank - m->left);
    m->right = blank + 1;
    m->right_size = strlen(m->right);
    return ATTN_OK;
}

static attn_status add_merge(attn_tokenizer *t, const merge *m, uint32_t place,
                             attn__buffer *spelling, attn_error *err)
{
    size_t skip = t->model.prefix ? strlen(t->model.prefix) : 0;
    uint32_t left = id_of(t, m->left, m->left_size), right = id_of(t, m->right, m->right_size);
    uint32_t *slot;

    if (left == ATTN__NONE || right == ATTN__NONE)
        return refuse(err, "model merges", left == ATTN__NONE ? m->left : m->right,
                      "is not in the vocabulary");
    if (skip > m->right_size || memcmp(m->right, t->model.prefix ? t->model.prefix : "", skip) != 0)
        return refuse(err, "model merges", m->right,
                      "does not begin with continuing_subword_prefix");
    spelling->size = 0;
    if (!attn__buffer_put(spelling, m->left, m->left_size) ||
        !attn__buffer_put(spelling, m->right + skip, m->right_size - skip) ||
        !attn__buffer_put(spelling, "", 1))
        return attn__no_memory(err);
    t->model.merged[place] = id_of(t, spelling->data, spelling->size - 1);
    if (t->model.merged[place] == ATTN__NONE)
        return refuse(err, "model merges", spelling->data, "is made but not in the vocabulary");
    slot = attn__table_at(&t->model.pairs, (uint64_t)left << 32 | right);
    if (!slot)
        return attn__no_memory(err);
    if (*slot != ATTN__NONE)
        return refuse(err, "model merges", spelling->data, "is made twice of the same pair");
    *slot = place;
    return ATTN_OK;
}

static attn_status read_merges(attn_tokenizer *t, const json_t *merges, attn_error *err)
{
    attn__buffer spelling = {.ctx = t->ctx};
    size_t count = json_array_size(merges);
    attn_status st = ATTN_OK;

    t->model.merged = attn__alloc(t->ctx, count * sizeof *t->model.merged);
    if (!t->model.merged)
        return attn__no_memory(err);
    for (size_t i = 0; i < count && st == ATTN_OK; i++) {
        const json_t *item = json_array_get(merges, i);
        merge m = {NULL, NULL, 0, 0};
        if (json_is_string(item) && strncmp(json_string_value(item), "#version", 8) == 0)
            continue;
        st = split_merge(item, i, &m, err);
        if (st == ATTN_OK)
            st = add_merge(t, &m, (uint32_t)i, &spelling, err);
    }
    attn__buffer_free(&spelling);
    return st;
}

/* --- BPE ------------------------------------------------------------------------------------ */

static attn_status read_affix(attn_tokenizer *t, const json_t *model, const char *name, char **out,
                              attn_error *err)
{
    const char *text;
    size_t size;

    TRY(attn__field_text(model, "model", name, false, &text, &size, err));
    if (!text || size == 0)
        return ATTN_OK;
    *out = attn__copy_text(t->ctx, text, size);
    return *out ? ATTN_OK : attn__no_memory(err);
}

static attn_status read_unknown(attn_tokenizer *t, const json_t *model, attn_error *err)
{
    const char *text;
    size_t size;

    TRY(attn__field_text(model, "model", "unk_token", false, &text, &size, err));
    t->model.unknown = text ? id_of(t, text, size) : ATTN__NONE;
    if (text && size > 0 && t->model.unknown == ATTN__NONE)
        return refuse(err, "model unk_token", text, "is not in the vocabulary");
    return ATTN_OK;
}

static attn_status read_bpe(attn_tokenizer *t, const json_t *model, size_t extra, attn_error *err)
{
    const json_t *vocab = json_object_get(model, "vocab"), *merges;
    const json_t *dropout = json_object_get(model, "dropout");

    TRY(attn__fields(model, "model",
                     "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk "
                     "byte_fallback ignore_merges vocab merges",
                     err));
    if (dropout && !json_is_null(dropout) &&
        !(json_is_number(dropout) && json_number_value(dropout) == 0.0))
        return attn__fail(err, ATTN_E_FORMAT, 0, "model: dropout is not supported");
    if (!json_is_object(vocab))
        return attn__fail(err, ATTN_E_FORMAT, 0, "model: 'vocab' is missing or not an object");
    TRY(attn__field_array(model, "model", "merges", &merges, err));
    TRY(read_affix(t, model, "continuing_subword_prefix", &t->model.prefix, err));
    TRY(read_affix(t, model, "end_of_word_suffix", &t->model.suffix, err));
    TRY(attn__field_bool(model, "model", "fuse_unk", &t->model.fuse_unknown, err));
    TRY(attn__field_bool(model, "model", "byte_fallback", &t->model.byte_fallback, err));
    TRY(attn__field_bool(model, "model", "ignore_merges", &t->model.ignore_merges, err));
    TRY(read_vocabulary(t, vocab, extra, err));
    TRY(read_unknown(t, model, err));
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->model.byte[b] = id_of(t, name, 6);
    }
    return read_merges(t, merges, err);
}

attn_status attn__read_model(attn_tokenizer *t, const json_t *root, attn_error *err)
{
    static const struct {
        const char *name;
        attn_status (*read)(attn_tokenizer *, const json_t *, size_t, attn_error *);
    } kinds[] = {{"BPE", read_bpe}};
    const json_t *model = json_object_get(root, "model");
    size_t extra = json_array_size(json_object_get(root, "added_tokens")), size;
    const char *type;

    if (!json_is_object(model))
        return attn__fail(err, ATTN_E_FORMAT, 0, "'model' is missing or not an object");
    TRY(attn__field_text(model, "model", "type", false, &type, &size, err));
    if (!type && json_is_array(json_object_get(model, "merges")))
        type = "BPE"; /* files of 2019 and 2020 do not say */
    for (size_t i = 0; type && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].name) == 0)
            return kinds[i].read(t, model, extra, err);
    return attn__fail(err, ATTN_E_FORMAT, 0, "model: unknown kind '%.60s'", type ? type : "");
}

/* --- Added tokens --------------------------------------------------------------------------- */

static attn_status read_added_fields(const json_t *item, size_t most, attn__added *a,
                                     const char **text, size_t *size, attn_error *err)
{
    static const char where[] = "added_tokens";
    size_t id = 0;

    TRY(attn__fields(item, where, "id content single_word lstrip rstrip normalized special", err));
    TRY(attn__field_size(item, where, "id", true, most, &id, err));
    TRY(attn__field_text(item, where, "content", true, text, size, err));
    TRY(attn__field_bool(item, where, "special", &a->special, err));
    a->normalized = !a->special;
    TRY(attn__field_bool(item, where, "normalized", &a->normalized, err));
    TRY(attn__field_bool(item, where, "single_word", &a->single_word, err));
    TRY(attn__field_bool(item, where, "lstrip", &a->left, err));
    TRY(attn__field_bool(item, where, "rstrip", &a->right, err));
    a->id = (uint32_t)id;
    if (*size == 0 || *size > MAX_ADDED_TEXT)
        return attn__fail(err, ATTN_E_FORMAT, 0, "added_tokens: content of 0 or over %d bytes",
                          MAX_ADDED_TEXT);
    return ATTN_OK;
}

/* Room by id and by number of text, for the vocabulary and the added tokens to come. */
static attn_status make_tables(attn_tokenizer *t, size_t added, attn_error *err)
{
    size_t ids = t->id_count, texts = attn__strings_count(&t->model.names) + 2 * added;

    t->spelt = attn__alloc(t->ctx, ids * sizeof *t->spelt);
    t->spoken = attn__alloc(t->ctx, ids * sizeof *t->spoken);
    t->special = attn__new(t->ctx, ids);
    t->text_ids = attn__alloc(t->ctx, texts * sizeof *t->text_ids);
    if (!t->spelt || !t->spoken || !t->special || !t->text_ids)
        return attn__no_memory(err);
    memset(t->spelt, 0xff, ids * sizeof *t->spelt);
    memset(t->spoken, 0xff, ids * sizeof *t->spoken);
    memset(t->text_ids, 0xff, texts * sizeof *t->text_ids);
    return ATTN_OK;
}

/* Enters the text of an id; both must be new, or the same as before. */
static attn_status enter(attn_tokenizer *t, uint32_t id, const char *text, size_t size,
                         attn_error *err)
{
    bool added;
    uint32_t number = attn__strings_add(&t->texts, text, size, &added);

    if (number == ATTN__NONE)
        return attn__no_memory(err);
    if (t->text_ids[number] == id)
        return ATTN_OK;
    if (t->text_ids[number] != ATTN__NONE)
        return refuse(err, "tokens", text, "has two ids");
    if (t->spelt[id] != ATTN__NONE)
        return attn__fail(err, ATTN_E_FORMAT, 0, "tokens: '%.40s' and '%.40s' have the same id",
                          attn__strings_get(&t->texts, t->spelt[id], NULL), text);
    t->text_ids[number] = id;
    t->spelt[id] = t->spoken[id] = number;
    return ATTN_OK;
}

/* Puts an added token into the tree it is searched by; a normalised one speaks as it is
 * normalised. */
static attn_status plant(attn_tokenizer *t, const attn__added *a, const char *text, size_t size,
                         attn__work *w, attn__buffer *normal, attn_error *err)
{
    uint32_t place = (uint32_t)(t->added.size / sizeof *a);
    bool taken = false, added;

    if (!attn__buffer_put(&t->added, a, sizeof *a))
        return attn__no_memory(err);
    if (a->normalized && t->normalizer.count > 0) {
        normal->size = 0;
        TRY(attn__normalize(&t->normalizer, w, text, size, normal, err));
        text = normal->data;
        size = normal->size;
        t->spoken[a->id] = attn__strings_add(&t->texts, text, size, &added);
        if (t->spoken[a->id] == ATTN__NONE)
            return attn__no_memory(err);
    }
    if (size > 0 &&
        !attn__tree_add(a->normalized ? &t->normal_tree : &t->raw_tree, text, size, place, &taken))
        return attn__no_memory(err);
    if (taken)
        return attn__fail(err, ATTN_E_FORMAT, 0,
                          "added_tokens: two tokens are found by the same text, one has id %lu",
                          (unsigned long)a->id);
    return ATTN_OK;
}

static attn_status plant_all(attn_tokenizer *t, const json_t *list, size_t most, attn__work *w,
                             attn_error *err)
{
    attn__buffer normal = {.ctx = t->ctx};
    attn_status st = ATTN_OK;

    for (size_t i = 0; i < json_array_size(list) && st == ATTN_OK; i++) {
        attn__added a = {0};
        const char *text;
        size_t size;
        st = read_added_fields(json_array_get(list, i), most, &a, &text, &size, err);
        if (st != ATTN_OK)
            break;
        t->special[a.id] = a.special;
        st = plant(t, &a, text, size, w, &normal, err);
        if (st == ATTN_OK && a.single_word && !t->word)
            st = attn__pattern_regex(t->ctx, "added_tokens", ATTN__WORD, sizeof ATTN__WORD - 1,
                                     &t->word, err);
    }
    attn__buffer_free(&normal);
    return st;
}

attn_status attn__read_added(attn_tokenizer *t, const json_t *root, attn_error *err)
{
    const json_t *list = json_object_get(root, "added_tokens");
    size_t count = json_array_size(list), most, names = attn__strings_count(&t->model.names);
    attn__work work;
    attn_status st;

    if (list && !json_is_null(list) && !json_is_array(list))
        return attn__fail(err, ATTN_E_FORMAT, 0, "'added_tokens' is not an array");
    most = largest_id(names + count);
    for (size_t i = 0; i < count; i++) {
        size_t id = 0;
        TRY(attn__field_size(json_array_get(list, i), "added_tokens", "id", true, most, &id, err));
        t->id_count = id >= t->id_count ? id + 1 : t->id_count;
    }
    TRY(make_tables(t, count, err));
    for (size_t i = 0; i < names; i++) {
        size_t size;
        const char *text = attn__strings_get(&t->model.names, (uint32_t)i, &size);
        TRY(enter(t, t->model.ids[i], text, size, err));
    }
    for (size_t i = 0; i < count; i++) {
        attn__added a = {0};
        const char *text;
        size_t size;
        TRY(read_added_fields(json_array_get(list, i), most, &a, &text, &size, err));
        TRY(enter(t, a.id, text, size, err));
    }
    st = attn__work_init(&work, t->ctx, err);
    if (st == ATTN_OK)
        st = plant_all(t, list, most, &work, err);
    attn__work_free(&work);
    return st;
}

/* --- What is put around a text -------------------------------------------------------------- */

typedef struct frame {
    attn__buffer before, after;
    bool passed; /* the text itself has been met */
} frame;

static attn_status put_id(const attn_tokenizer *t, frame *f, const json_t *id, attn_error *err)
{
    json_int_t value = json_integer_value(id);
    uint32_t number;

    if (!json_is_integer(id) || value < 0 || (uint64_t)value >= t->id_count ||
        t->spelt[value] == ATTN__NONE)
        return attn__fail(err, ATTN_E_FORMAT, 0, "post_processor: an id that is no token's");
    number = (uint32_t)value;
    return attn__buffer_put(f->passed ? &f->after : &f->before, &number, sizeof number)
               ? ATTN_OK
               : attn__no_memory(err);
}

static attn_status read_template_item(const attn_tokenizer *t, const json_t *item,
                                      const json_t *specials, frame *f, attn_error *err)
{
    static const char where[] = "post_processor TemplateProcessing";
    const json_t *token = json_object_get(item, "SpecialToken"), *text, *ids;
    const char *id;
    size_t size;

    TRY(attn__fields(item, where, token ? "SpecialToken" : "Sequence", err));
    text = token ? token : json_object_get(item, "Sequence");
    TRY(attn__fields(text, where, "id type_id", err));
    TRY(attn__field_text(text, where, "id", true, &id, &size, err));
    if (!token) {
        if (f->passed || strcmp(id, "A") != 0)
            return attn__fail(err, ATTN_E_FORMAT, 0, "%s: 'single' has not text A once", where);
        f->passed = true;
        return ATTN_OK;
    }
    TRY(attn__field_array(json_object_get(specials, id), where, "ids", &ids, err));
    for (size_t i = 0; i < json_array_size(ids); i++)
        TRY(put_id(t, f, json_array_get(ids, i), err));
    return ATTN_OK;
}

static attn_status read_template(const attn_tokenizer *t, const json_t *object, frame *f,
                                 attn_error *err)
{
    static const char where[] = "post_processor TemplateProcessing";
    const json_t *single;

    TRY(attn__fields(object, where, "type single pair special_tokens", err));
    TRY(attn__field_array(object, where, "single", &single, err));
    for (size_t i = 0; i < json_array_size(single); i++)
        TRY(read_template_item(t, json_array_get(single, i),
                               json_object_get(object, "special_tokens"), f, err));
    if (!f->passed)
        return attn__fail(err, ATTN_E_FORMAT, 0, "%s: 'single' has not text A once", where);
    return ATTN_OK;
}

/* BertProcessing and RobertaProcessing: "cls": ["<s>", 0], "sep": ["</s>", 2]. */
static attn_status read_bert(const attn_tokenizer *t, const json_t *object, frame *f,
                             attn_error *err)
{
    TRY(attn__fields(object, "post_processor", "type sep cls trim_offsets add_prefix_space", err));
    TRY(put_id(t, f, json_array_get(json_object_get(object, "cls"), 1), err));
    f->passed = true;
    return put_id(t, f, json_array_get(json_object_get(object, "sep"), 1), err);
}

static attn_status read_offsets(const attn_tokenizer *t, const json_t *object, frame *f,
                                attn_error *err)
{
    (void)t;
    (void)f; /* ByteLevel moves offsets, which there are none of here */
    return attn__fields(object, "post_processor ByteLevel",
                        "type add_prefix_space trim_offsets use_regex", err);
}

/* Puts `inner`, whose frame lies closer to the text, and what `f` adds into one. */
static attn_status wrap(attn_tokenizer *t, const frame *f, attn_error *err)
{
    attn__buffer before = {.ctx = t->ctx};

    if (!attn__buffer_put(&before, f->before.data, f->before.size) ||
        !attn__buffer_put(&before, t->before.data, t->before.size) ||
        !attn__buffer_put(&t->after, f->after.data, f->after.size)) {
        attn__buffer_free(&before);
        return attn__no_memory(err);
    }
    attn__buffer_free(&t->before);
    t->before = before;
    return ATTN_OK;
}

static attn_status read_processor(attn_tokenizer *t, const json_t *object, attn_error *err)
{
    static const struct {
        const char *name;
        attn_status (*read)(const attn_tokenizer *, const json_t *, frame *, attn_error *);
    } kinds[] = {{"TemplateProcessing", read_template},
                 {"BertProcessing", read_bert},
                 {"RobertaProcessing", read_bert},
                 {"ByteLevel", read_offsets}};
    frame f = {{.ctx = t->ctx}, {.ctx = t->ctx}, false};
    const char *type;
    size_t size;
    attn_status st;

    TRY(attn__field_text(object, "post_processor", "type", true, &type, &size, err));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].name) == 0) {
            st = kinds[i].read(t, object, &f, err);
            if (st == ATTN_OK)
                st = wrap(t, &f, err);
            attn__buffer_free(&f.before);
            attn__buffer_free(&f.after);
            return st;
        }
    return attn__fail(err, ATTN_E_FORMAT, 0, "post_processor: unknown kind '%.60s'", type);
}

attn_status attn__read_frame(attn_tokenizer *t, const json_t *root, attn_error *err)
{
    const json_t *object = json_object_get(root, "post_processor"), *list;
    const char *type;
    size_t size;

    if (!object || json_is_null(object))
        return ATTN_OK;
    TRY(attn__field_text(object, "post_processor", "type", true, &type, &size, err));
    if (strcmp(type, "Sequence") != 0)
        return read_processor(t, object, err);
    TRY(attn__fields(object, "post_processor Sequence", "type processors", err));
    TRY(attn__field_array(object, "post_processor Sequence", "processors", &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_processor(t, json_array_get(list, i), err));
    return ATTN_OK;
}
