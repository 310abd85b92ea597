/* The text form of models: all there are come back as they were, mistakes are named. */
#include "runtime/model.h"
#include "runtime/status.h"
#include "tests/test.h"

/* A linear regression: the example of the grammar. */
static const char line_text[] = "model line\n"
                                "summary y = a x + b\n"
                                "source nobody's\n"
                                "sample row bytes 8\n"
                                "logits 1\n"
                                "examples 100\n"
                                "layer dense\n"
                                "  operation dense matmul 1 x 1 x 1 first\n"
                                "  operation loss loss in 1 out 1\n"
                                "  variable weight elements 1\n"
                                "  variable bias elements 1\n"
                                "  saved whole 1 input 1\n";

static struct tutti_workload *parse(const char *text)
{
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_parse("text", text, strlen(text), &model, &err), err);
    if (model == NULL)
        abort();
    return model;
}

static char *print(const struct tutti_workload *model)
{
    struct tutti_err err = {""};
    char *text = NULL;

    CHECK_OK(tutti_model_print(model, &text, &err), err);
    if (text == NULL)
        abort();
    return text;
}

static bool same_operation(const struct tutti_operation *a, const struct tutti_operation *b)
{
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind && a->split == b->split &&
           a->count == b->count && a->rows == b->rows && a->columns == b->columns &&
           a->depth == b->depth && a->flops == b->flops && a->in_elements == b->in_elements &&
           a->out_elements == b->out_elements && a->no_input_gradient == b->no_input_gradient &&
           a->kv_elements == b->kv_elements;
}

static bool same_variable(const struct tutti_variable *a, const struct tutti_variable *b)
{
    return strcmp(a->name, b->name) == 0 && a->split == b->split && a->rows == b->rows &&
           a->elements == b->elements && a->touched_rows == b->touched_rows &&
           a->unreduced == b->unreduced && a->kv_elements == b->kv_elements;
}

static bool same_layer(const struct tutti_layer *a, const struct tutti_layer *b)
{
    bool same = strcmp(a->name, b->name) == 0 && a->repeat == b->repeat &&
                a->operation_count == b->operation_count &&
                a->variable_count == b->variable_count && a->is_transformer == b->is_transformer &&
                a->is_frozen == b->is_frozen && memcmp(&a->saved, &b->saved, sizeof(a->saved)) == 0;

    for (uint32_t i = 0; same && i < a->operation_count; i++)
        same = same_operation(&a->operations[i], &b->operations[i]);
    for (uint32_t i = 0; same && i < a->variable_count; i++)
        same = same_variable(&a->variables[i], &b->variables[i]);
    return same;
}

static bool same_transformer(const struct tutti_transformer *a, const struct tutti_transformer *b)
{
    return a->layers == b->layers && a->hidden == b->hidden && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->feed_forward == b->feed_forward &&
           a->vocabulary == b->vocabulary && a->experts == b->experts &&
           a->active_experts == b->active_experts && a->gated == b->gated && a->tied == b->tied;
}

static bool same(const struct tutti_workload *a, const struct tutti_workload *b)
{
    bool same = strcmp(a->name, b->name) == 0 && strcmp(a->summary, b->summary) == 0 &&
                strcmp(a->source, b->source) == 0 && a->sample == b->sample &&
                a->sequence == b->sequence && a->sample_bytes == b->sample_bytes &&
                a->logits == b->logits && a->examples == b->examples &&
                same_transformer(&a->transformer, &b->transformer) &&
                a->layer_count == b->layer_count;

    for (uint32_t i = 0; same && i < a->layer_count; i++)
        same = same_layer(&a->layers[i], &b->layers[i]);
    return same;
}

TEST(all_models_come_back_from_their_text)
{
    struct tutti_model_entry entry;
    struct tutti_model_params shape = {.size = sizeof(shape)};

    shape.transformer = (struct tutti_transformer){.layers = 2, .hidden = 64, .heads = 4};
    for (size_t i = 0; tutti_model_at(i, &entry); i++) {
        bool asks = strcmp(entry.name, "gpt") == 0 || strcmp(entry.name, "llama") == 0;
        struct tutti_workload *model = NULL;
        struct tutti_workload *back;
        struct tutti_err err = {""};
        char *text;
        char *again;

        CHECK_OK(tutti_model_new(entry.name, asks ? &shape : NULL, &model, &err), err);
        REQUIRE(model != NULL);
        text = print(model);
        back = parse(text);
        again = print(back);
        if (!same(model, back) || strcmp(text, again) != 0)
            TEST_FAIL("%s is another when it comes back:\n%s", entry.name, text);
        free(text);
        free(again);
        tutti_model_free(model);
        tutti_model_free(back);
    }
}

TEST(a_model_of_ones_own)
{
    struct tutti_workload *model = parse(line_text);
    struct tutti_workload *known = NULL;
    struct tutti_model_sums sums = tutti_model_sum(model);
    char *text = print(model);

    CHECK_TEXT(text, line_text);
    CHECK_INT(sums.parameters, 2);
    CHECK_INT(sums.flops, 2);
    CHECK_INT(model->layers[0].operations[0].in_elements, 1); /* by its shape */
    CHECK(model->layers[0].operations[0].no_input_gradient);
    CHECK(tutti_model_new("linear-regression", NULL, &known, NULL) == 0);
    CHECK_INT(tutti_model_sum(known).parameters, sums.parameters);
    CHECK_INT(tutti_model_sum(known).flops, sums.flops);
    free(text);
    tutti_model_free(known);
    tutti_model_free(model);
}

/* Comments, blanks, the order of keys; what is left out. */
TEST(what_may_be_left_out)
{
    struct tutti_workload *model = parse("# mine\r\n"
                                         "model   m # a name\n"
                                         "\n"
                                         "layer a repeat 3 transformer\n"
                                         "operation p matmul 2 x 3 x 5 split rows count 7 out 1\n"
                                         "operation c convolution 2 x 3 x 5 flops 9\n"
                                         "operation n normalization\n"
                                         "variable v rows 4 elements 8 touched 2\n");
    const struct tutti_operation *op = model->layers[0].operations;
    struct tutti_model_sums sums = tutti_model_sum(model);

    CHECK_TEXT(model->summary, "");
    CHECK_INT(model->sequence, 1);
    CHECK_INT(model->sample, TUTTI_SAMPLE_ROW);
    CHECK_INT(op[0].in_elements, 7 * 2 * 3);
    CHECK_INT(op[0].out_elements, 1);
    CHECK_INT(op[0].flops, 2 * 7 * 2 * 3 * 5);
    CHECK_INT(op[1].flops, 9);
    CHECK_INT(op[1].in_elements, 0);
    CHECK_INT(op[2].rows, 0);
    CHECK_INT(sums.flops, 3 * (420 + 9));
    CHECK_INT(sums.parameters, 24);
    CHECK_INT(sums.variable_count, 3);
    tutti_model_free(model);
}

static void refused(const char *text, const char *message)
{
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_model_parse("my.model", text, strlen(text), &model, &err), -TUTTI_EINVAL);
    CHECK(model == NULL);
    CHECK_TEXT(err.text, message);
}

TEST(mistakes_are_named)
{
    refused("", "my.model: line 1: no model ('model NAME' comes first)");
    refused("layer a\n", "my.model: line 1: unexpected 'layer' ('model NAME' comes first)");
    refused("model\n", "my.model: line 1: the line ends where a name should stand");
    refused("model a b\n", "my.model: line 1: unexpected 'b' (the end of the line)");
    refused("model a\n\n", "my.model: line 2: no layer (such as: layer dense)");
    refused("model a\nmodel b\n", "my.model: line 2: a second 'model' (one)");
    refused("model a\nname b\n",
            "my.model: line 2: unexpected 'name' (summary, source, sample, sequence, logits, "
            "examples, transformer or layer)");
    refused("model a\nlayer l\nname b\n",
            "my.model: line 3: unexpected 'name' (layer, operation, variable or saved)");
    refused("model a\nlayer l\nlogits 1\n",
            "my.model: line 3: 'logits' after the first layer (before it)");
    refused("model a\nlogits 1\nlogits 1\n", "my.model: line 3: a second 'logits' (one)");
    refused("model a\nsample picture\n",
            "my.model: line 2: 'picture' is not a kind of sample (image, sequence or row)");
    refused("model a\nsample row 8\n",
            "my.model: line 2: unexpected '8' (bytes or the end of the line)");
    refused("model a\nsequence 0\n", "my.model: line 2: '0' tokens of a sample (1 or more)");
    refused("model a\ntransformer experts 2 active 3\n",
            "my.model: line 2: '3' active experts of 2");
    refused("model a\nsaved whole 1\n",
            "my.model: line 2: 'saved' before the first layer ('layer NAME')");
    refused("model a\nlayer l repeat 0\n", "my.model: line 2: '0' as 'repeat' (1 or more)");
    refused(
        "model a\nlayer l\noperation o gemm\n",
        "my.model: line 3: 'gemm' is not a kind of work (other, matmul, convolution, attention, "
        "normalization, elementwise, embedding, loss, optimizer, input or host)");
    refused("model a\nlayer l\noperation o matmul 1 x 2\n",
            "my.model: line 3: the line ends where 'x' should stand");
    refused("model a\nlayer l\noperation o matmul 1 x 2 x 0\n",
            "my.model: line 3: '0' is not a number of columns (1 or more)");
    refused("model a\nlayer l\noperation o loss 1 x 2 x 3\n",
            "my.model: line 3: unexpected '1' (count, split, in, out, flops, kv, first or the end "
            "of the line)");
    refused("model a\nlayer l\noperation o loss in 2 out 1 kv 4\n",
            "my.model: line 3: '4' elements of keys and values of 3 (at most as many)");
    refused("model a\nlayer l\nvariable v elements 2 kv 3\n",
            "my.model: line 3: '3' elements of keys and values of 2 (at most as many)");
    refused("model a\nlayer l\nsaved split 2 kv 3\n",
            "my.model: line 3: '3' elements of keys and values of 2 (at most as many)");
    refused("model a\nlayer l\noperation o loss split cols\n",
            "my.model: line 3: 'cols' is not a split (none, columns, rows, heads, vocab or "
            "experts)");
    refused("model a\nlayer l\noperation o loss in 1 in 2\n",
            "my.model: line 3: a second 'in' (one)");
    refused("model a\nlayer l\nvariable v\n", "my.model: line 3: a variable without 'elements N'");
    refused("model a\nlayer l\nvariable v elements 2 rows 3\n",
            "my.model: line 3: '3' rows of 2 elements (at most as many)");
    refused("model a\nlayer l\nvariable v elements 4 rows 2 touched 3\n",
            "my.model: line 3: '3' touched rows of 2 rows (at most as many)");
    refused("model a\nlayer l\nsaved\nsaved\n",
            "my.model: line 4: a second 'saved' of a layer (one)");
    refused("model a\nlayer l repeat 4294967295\nvariable v elements 18446744073709551615\n",
            "my.model: line 3: 'a' is too large (sums of less than 2^64 elements and operations)");
}
