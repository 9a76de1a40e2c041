// favor: linear-time attention for C++. This header includes the whole public API.
#ifndef FAVOR_FAVOR_H_
#define FAVOR_FAVOR_H_

#include "favor/activation.h"
#include "favor/attention.h"
#include "favor/context.h"
#include "favor/data.h"
#include "favor/embedding.h"
#include "favor/error.h"
#include "favor/features.h"
#include "favor/generate.h"
#include "favor/likelihood.h"
#include "favor/linearised.h"
#include "favor/local_mask.h"
#include "favor/maps.h"
#include "favor/model.h"
#include "favor/mutations.h"
#include "favor/names.h"
#include "favor/npy.h"
#include "favor/polynomial.h"
#include "favor/prediction.h"
#include "favor/random.h"
#include "favor/records.h"
#include "favor/score.h"
#include "favor/state.h"
#include "favor/taylor_series.h"
#include "favor/tensor.h"
#include "favor/train.h"
#include "favor/version.h"
#include "favor/vocabulary.h"

#endif  // FAVOR_FAVOR_H_
