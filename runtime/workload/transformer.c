/* Parts of transformers: embeddings, normalisation, attention, head. */
#include "runtime/workload/transformer.h"

static uint64_t elements(const struct tutti_build *build)
{
    return build->sequence * build->transformer.hidden;
}

void tutti_transformer_lookup(struct tutti_build *build, const char *name, enum tutti_split split,
                              uint64_t rows)
{
    bool adds = build->operations.count > 0;
    uint64_t out = elements(build);

    tutti_build_step(build, name, TUTTI_WORK_EMBEDDING, split, adds ? 2 * out : out, out);
    tutti_build_variable(build,
                         (struct tutti_variable){.name = name,
                                                 .split = split,
                                                 .rows = rows,
                                                 .elements = rows * build->transformer.hidden});
}

void tutti_transformer_norm(struct tutti_build *build, struct tutti_layer_norm n)
{
    uint64_t count = n.positions * n.width;

    tutti_build_step(build, n.name, TUTTI_WORK_NORMALIZATION, TUTTI_SPLIT_NONE, count, count);
    tutti_build_variable(
        build, (struct tutti_variable){.name = tutti_build_name(build, "%s.scale", n.name),
                                       .rows = n.width,
                                       .elements = n.width});
    if (n.shift)
        tutti_build_variable(
            build, (struct tutti_variable){.name = tutti_build_name(build, "%s.shift", n.name),
                                           .rows = n.width,
                                           .elements = n.width});
    tutti_build_save(build, (struct tutti_saved){.whole_elements = n.kept * count});
}

void tutti_transformer_attention(struct tutti_build *build, struct tutti_attention a)
{
    uint64_t s = build->sequence;
    uint64_t matrices = a.heads * s * s;

    tutti_build_operation(build, (struct tutti_operation){.name = "attention",
                                                          .kind = TUTTI_WORK_ATTENTION,
                                                          .split = TUTTI_SPLIT_HEADS,
                                                          .rows = s,
                                                          .columns = s,
                                                          .depth = a.heads * a.head_size,
                                                          .in_elements = a.qkv_elements,
                                                          .out_elements = a.out_elements});
    tutti_build_save(build, (struct tutti_saved){
                                .split_elements = a.qkv_elements + a.out_elements,
                                .attention_elements = a.dropout ? 2 * matrices : matrices,
                                .attention_bytes = a.dropout ? matrices : 0,
                            });
}

void tutti_transformer_add(struct tutti_build *build, const char *name, bool dropout)
{
    tutti_build_step(build, name, TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, 2 * elements(build),
                     elements(build));
    if (dropout)
        tutti_build_save(build, (struct tutti_saved){.whole_bytes = elements(build)});
}

static void shared_experts(struct tutti_build *b, uint64_t columns)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;

    tutti_build_dense(b, (struct tutti_dense){"shared.gate.up", TUTTI_SPLIT_COLUMNS, s, h,
                                              2 * columns, false, false});
    tutti_build_step(b, "shared.swiglu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_COLUMNS,
                     2 * s * columns, s * columns);
    tutti_build_dense(
        b, (struct tutti_dense){"shared.down", TUTTI_SPLIT_ROWS, s, columns, h, false, false});
    tutti_build_save(b, (struct tutti_saved){.split_elements = 3 * s * columns});
}

/* One product of each expert, of which `active` together have as many rows as there are tokens
 * active times: count x rows. */
static void expert_product(struct tutti_build *b, const char *name, uint64_t depth,
                           uint64_t columns)
{
    const struct tutti_transformer *t = &b->transformer;
    uint64_t rows = b->sequence;

    tutti_build_operation(b, (struct tutti_operation){
                                 .name = name,
                                 .kind = TUTTI_WORK_MATMUL,
                                 .split = TUTTI_SPLIT_EXPERTS,
                                 .count = t->active_experts,
                                 .rows = rows,
                                 .depth = depth,
                                 .columns = columns,
                                 .in_elements = t->active_experts * rows * depth,
                                 .out_elements = t->active_experts * rows * columns,
                             });
    tutti_build_variable(b, (struct tutti_variable){.name = name,
                                                    .split = TUTTI_SPLIT_EXPERTS,
                                                    .rows = t->experts * depth,
                                                    .elements = t->experts * depth * columns});
}

void tutti_transformer_experts(struct tutti_build *b, uint64_t shared)
{
    const struct tutti_transformer *t = &b->transformer;
    uint64_t s = b->sequence;
    uint64_t sh = s * t->hidden;
    uint64_t f = t->feed_forward;
    uint64_t visits = s * t->active_experts;

    tutti_build_dense(b, (struct tutti_dense){"router", TUTTI_SPLIT_NONE, s, t->hidden, t->experts,
                                              false, false});
    tutti_build_step(b, "choice", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, s * t->experts, visits);
    if (shared > 0)
        shared_experts(b, shared * f);
    tutti_build_step(b, "dispatch", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, sh,
                     visits * t->hidden);
    expert_product(b, "experts.gate.up", t->hidden, 2 * f);
    tutti_build_step(b, "experts.swiglu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_EXPERTS,
                     2 * visits * f, visits * f);
    expert_product(b, "experts.down", f, t->hidden);
    tutti_build_step(b, "combine", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, visits * t->hidden,
                     sh);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = 2 * visits * t->hidden,
                                             .split_elements = 3 * visits * f});
}

void tutti_transformer_head(struct tutti_build *build, uint64_t positions, bool tied)
{
    uint64_t h = build->transformer.hidden;
    uint64_t v = build->vocabulary;

    tutti_build_operation(build, (struct tutti_operation){.name = "head",
                                                          .kind = TUTTI_WORK_MATMUL,
                                                          .split = TUTTI_SPLIT_VOCAB,
                                                          .rows = positions,
                                                          .depth = h,
                                                          .columns = v,
                                                          .in_elements = positions * h,
                                                          .out_elements = positions * v});
    if (!tied)
        tutti_build_variable(
            build, (struct tutti_variable){
                       .name = "head", .split = TUTTI_SPLIT_VOCAB, .rows = v, .elements = v * h});
    tutti_build_step(build, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_VOCAB, positions * v, positions);
    build->logits = positions * v;
}
