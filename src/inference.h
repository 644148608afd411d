#pragma once

// Networks without their code: engines and their files, quantisation, models of ONNX.
#include "mica/inference/engine.h"
#include "mica/onnx/export.h"
#include "mica/onnx/onnx.h"
#include "mica/onnx/segments.h"
