/* The models that published tables mean by their words, which nobody has agreed on. */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/model.h"

enum { WORDS_BYTES = 256 };

/* The first row of which all parts are in the words, of which letters (small) and digits are left;
 * a part that begins with '!' must not be there. */
struct meaning {
    const char *parts;
    const char *name;  /* NULL: a model that is not among those there are */
    uint32_t sequence; /* the row is for samples of so many tokens; 0: any */
    uint32_t classes;  /* as the words say; 0: as known */
    uint32_t image;
};

static const struct meaning meanings[] = {
    /* Detectron2's zoo; what it varies beside is another model. */
    {"jitter", NULL, 0, 0, 0},
    {"panoptic", NULL, 0, 0, 0},
    {"cascade", NULL, 0, 0, 0},
    {"deformable", NULL, 0, 0, 0},
    {"syncbn", NULL, 0, 0, 0},
    {"lvis maskrcnn r50fpn", "mask-rcnn-r50-fpn", 0, 1230, 0},
    {"lvis maskrcnn r101fpn", "mask-rcnn-r101-fpn", 0, 1230, 0},
    {"lvis maskrcnn x101fpn", "mask-rcnn-x101-fpn", 0, 1230, 0},
    {"r50fpncityscapes", "mask-rcnn-r50-fpn", 0, 8, 1024},
    {"r50c4voc", "faster-rcnn-r50-c4", 0, 20, 0},
    {"othersettings baseline r50fpn", "mask-rcnn-r50-fpn", 0, 0, 0},
    {"fasterrcnn r50c4", "faster-rcnn-r50-c4", 0, 0, 0},
    {"fasterrcnn r50dc5", "faster-rcnn-r50-dc5", 0, 0, 0},
    {"fasterrcnn r50fpn", "faster-rcnn-r50-fpn", 0, 0, 0},
    {"fasterrcnn r101c4", "faster-rcnn-r101-c4", 0, 0, 0},
    {"fasterrcnn r101dc5", "faster-rcnn-r101-dc5", 0, 0, 0},
    {"fasterrcnn r101fpn", "faster-rcnn-r101-fpn", 0, 0, 0},
    {"fasterrcnn x101fpn", "faster-rcnn-x101-fpn", 0, 0, 0},
    {"fastrcnnr50fpn", "fast-rcnn-r50-fpn", 0, 0, 0},
    {"rpnr50c4", "rpn-r50-c4", 0, 0, 0},
    {"rpnr50fpn", "rpn-r50-fpn", 0, 0, 0},
    {"retinanet r50", "retinanet-r50", 0, 0, 0},
    {"retinanet r101", "retinanet-r101", 0, 0, 0},
    {"keypointrcnn r50fpn", "keypoint-rcnn-r50-fpn", 0, 0, 0},
    {"keypointrcnn r101fpn", "keypoint-rcnn-r101-fpn", 0, 0, 0},
    {"keypointrcnn x101fpn", "keypoint-rcnn-x101-fpn", 0, 0, 0},
    {"maskrcnn r50c4", "mask-rcnn-r50-c4", 0, 0, 0},
    {"maskrcnn r50dc5", "mask-rcnn-r50-dc5", 0, 0, 0},
    {"maskrcnn r50fpn", "mask-rcnn-r50-fpn", 0, 0, 0},
    {"maskrcnn r101c4", "mask-rcnn-r101-c4", 0, 0, 0},
    {"maskrcnn r101dc5", "mask-rcnn-r101-dc5", 0, 0, 0},
    {"maskrcnn r101fpn", "mask-rcnn-r101-fpn", 0, 0, 0},
    {"maskrcnn x101fpn", "mask-rcnn-x101-fpn", 0, 0, 0},
    {"segmentationmaskrcnn", "mask-rcnn-r50-fpn", 0, 0, 832}, /* NVIDIA's example */

    /* Images. ResNet-50 without a version is v1.5, as in NVIDIA's examples and MLPerf. */
    {"seresnext101", "se-resnext101", 0, 0, 0},
    {"resnext101", "resnext101", 0, 0, 0},
    {"resnet50v1 !resnet50v15", "resnet50-v1", 0, 0, 0},
    {"resnet101v1 !resnet101v15", "resnet101-v1", 0, 0, 0},
    {"resnet152v1 !resnet152v15", "resnet152-v1", 0, 0, 0},
    {"resnet50", "resnet50", 0, 0, 0},
    {"resnet101", "resnet101", 0, 0, 0},
    {"resnet152", "resnet152", 0, 0, 0},
    {"resnet18", "resnet18", 0, 0, 0},
    {"resnet34", "resnet34", 0, 0, 0},
    {"rn50", "resnet50", 0, 0, 0},
    {"inceptionv3", "inception3", 0, 0, 0},
    {"inception3", "inception3", 0, 0, 0},
    {"inceptionv4", "inception4", 0, 0, 0},
    {"inception4", "inception4", 0, 0, 0},
    {"alexnet", "alexnet", 0, 0, 0},
    {"vgg16", "vgg16", 0, 0, 0},
    {"vgg19", "vgg19", 0, 0, 0},
    {"mobilenetv2", "mobilenetv2", 0, 0, 0},
    {"efficientnetv2", "efficientnetv2-s", 0, 0, 0},
    {"efficientnetb0", "efficientnet-b0", 0, 0, 0},
    {"efficientnetb4", "efficientnet-b4", 0, 0, 0},
    {"unet3d", "unet-3d", 0, 0, 0},
    {"unetindustrial", "unet-industrial", 0, 0, 0},
    {"nnunet dimension2", "nnunet-2d", 0, 0, 0},
    {"nnunet dimension3", "nnunet-3d", 0, 0, 0},
    {"unet !nnunet", "unet", 0, 0, 0},
    {"vnet !convnet", "vnet", 0, 0, 0},
    {"ssd !detectionssd", "ssd300-r50", 0, 0, 0}, /* TensorFlow's example is another network */

    /* Language. NVIDIA's BERT without a size is large; of 384 tokens it is SQuAD. */
    {"biobert", "bert-base-squad", 0, 0, 0},
    {"electra", "bert-base-squad", 384, 0, 0},
    {"electra", "electra-base", 0, 0, 0},
    {"bertbase squad", "bert-base-squad", 0, 0, 0},
    {"bertlarge squad", "bert-large-squad", 0, 0, 0},
    {"bertbase", "bert-base-squad", 384, 0, 0},
    {"bertbase", "bert-base", 0, 0, 0},
    {"bertlarge", "bert-large-squad", 384, 0, 0},
    {"bertlarge", "bert-large", 0, 0, 0},
    {"modelingbert", "bert-large-squad", 384, 0, 0},
    {"modelingbert", "bert-large", 0, 0, 0},
    {"transformerxllarge", "transformer-xl-large", 0, 0, 0},
    {"transformerxl", "transformer-xl-base", 0, 0, 0},
    {"gnmt", "gnmt", 0, 0, 0},
    {"proxy", NULL, 0, 0, 0}, /* with fewer layers */
    {"llama3 405b", "llama3-405b", 0, 0, 0},
    {"llama3 70b", "llama3-70b", 0, 0, 0},
    {"llama32 3b", "llama3.2-3b", 0, 0, 0},
    {"llama32 1b", "llama3.2-1b", 0, 0, 0},
    {"llama3 8b", "llama3-8b", 0, 0, 0},
    {"llama2 70b", "llama2-70b", 0, 0, 0},
    {"llama2 13b", "llama2-13b", 0, 0, 0},
    {"llama2 7b", "llama2-7b", 0, 0, 0},
    {"mixtral 8x22b", "mixtral-8x22b", 0, 0, 0},
    {"mixtral 8x7b", "mixtral-8x7b", 0, 0, 0},
    {"deepseekv3", "deepseek-v3", 0, 0, 0},
    {"nemotron4 340b", "nemotron4-340b", 0, 0, 0},
    {"nemotron4 15b", "nemotron4-15b", 0, 0, 0},
    {"gpt3 175b", "gpt3-175b", 0, 0, 0},

    /* Recommenders. */
    {"recommendationncf", "ncf", 0, 0, 0},
    {"vaecf", "vae-cf", 0, 0, 0},
    {"wideanddeep", "wide-and-deep", 0, 0, 0},
    {"dlrm", "dlrm", 0, 0, 0},
};

/* Small letters and digits, the rest left out; cut at the end if too long. */
static void squash(const char *words, char ret[WORDS_BYTES])
{
    size_t used = 0;

    for (; *words != '\0' && used + 1 < WORDS_BYTES; words++) {
        if (isalnum((unsigned char)*words))
            ret[used++] = (char)tolower((unsigned char)*words);
    }
    ret[used] = '\0';
}

static bool has_part(const char *text, const char *part, size_t bytes)
{
    for (; *text != '\0'; text++) {
        if (strncmp(text, part, bytes) == 0)
            return true;
    }
    return false;
}

static bool has_all(const char *text, const char *parts)
{
    while (*parts != '\0') {
        bool wants = *parts != '!';
        size_t bytes;

        parts += !wants;
        bytes = strcspn(parts, " ");
        if (has_part(text, parts, bytes) != wants)
            return false;
        parts += bytes;
        parts += strspn(parts, " ");
    }
    return true;
}

const char *tutti_model_recognize(const char *words, uint32_t sequence,
                                  struct tutti_model_params *ret)
{
    char text[WORDS_BYTES];

    squash(words, text);
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        const struct meaning *m = &meanings[i];

        if ((m->sequence != 0 && m->sequence != sequence) || !has_all(text, m->parts))
            continue;
        if (m->name == NULL)
            return NULL;
        *ret = (struct tutti_model_params){
            .size = sizeof(*ret), .classes = m->classes, .image = m->image};
        return m->name;
    }
    return NULL;
}
