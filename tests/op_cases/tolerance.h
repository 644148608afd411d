#pragma once

#include <string_view>

#include "tests/op_cases/complex_pairs.h"

namespace mica::cases {

struct ToleranceRow {
  std::string_view op;
  Tolerance forward;
  Tolerance gradient;  ///< of each input, computed in the dtype, against the f64 gradient
};

// clang-format off
inline constexpr ToleranceRow kTolerances[] = {
    // op                     forward                              gradient
    // shape
    {"reshape",             {0, 0, 0, 0},                        {0, 0, 0, 0}},
    {"permute",             {0, 0, 0, 0},                        {0, 0, 0, 0}},
    {"expand",              {0, 0, 0, 0},                        {1e-15, 4e-7, 1e-3, 8e-3}},
    {"slice",               {0, 0, 0, 0},                        {0, 0, 0, 0}},
    {"copy",                {0, 0, 0, 0},                        {1e-15, 1e-7, 5e-4, 4e-3}},
    {"copy_into",           {0, 0, 0, 0},                        {0, 0, 0, 0}},
    {"copies",              {0, 0, 0, 0},                        {0, 0, 0, 0}},
    {"full",                {0, 6e-8, 5e-4, 4e-3},               {0, 0, 0, 0}},
    // elementwise
    {"add",                 {2e-16, 6.1e-8, 5e-4, 4e-3},         {1e-15, 4e-7, 1e-3, 8e-3}},
    {"sub",                 {2e-16, 6.1e-8, 5e-4, 4e-3},         {1e-15, 4e-7, 1e-3, 8e-3}},
    {"mul",                 {2e-16, 6.1e-8, 5e-4, 4e-3},         {1e-15, 4e-7, 2e-3, 1.6e-2}},
    {"div",                 {2e-16, 1.3e-7, 5e-4, 4e-3},         {1e-14, 1e-6, 3e-3, 2.4e-2}},
    {"neg",                 {0, 0, 0, 0},                        {0, 0, 0, 0}},
    {"relu",                {0, 0, 0, 0},                        {0, 0, 0, 0}},
    {"relu_grad",           {0, 0, 0, 0},                        {0, 0, 0, 0}},
    {"sigmoid",             {4e-16, 2.4e-7, 1e-3, 8e-3},         {2e-15, 6e-7, 3e-3, 2.4e-2}},
    {"gelu_tanh_grad",      {4e-15, 1e-6, 1e-3, 8e-3},           {1e-13, 1e-5, 3e-3, 2.4e-2}},  // 1 - t^2
    {"mish_grad",           {2e-15, 1e-6, 1e-3, 8e-3},           {1e-13, 1e-5, 3e-3, 2.4e-2}},
    {"softplus_grad",       {4e-16, 2.4e-7, 1e-3, 8e-3},         {1e-14, 2e-6, 3e-3, 2.4e-2}},
    {"fused",               {4e-15, 2e-6, 3e-3, 2.4e-2},         {0, 0, 0, 0}},  // rounded at each step
    {"fused_reduce",        {1e-14, 2e-6, 3e-3, 2.4e-2},         {0, 0, 0, 0}},
    {"anchored",            {1e-13, 4e-6, 3e-3, 2.4e-2},         {0, 0, 0, 0}},
    // reduction, scans, order
    {"sum",                 {1e-14, 1e-6, 5e-4, 4e-3},           {0, 0, 0, 0}},
    {"mean",                {1e-14, 1e-6, 1e-3, 8e-3},           {1e-15, 4e-7, 1e-3, 8e-3}},
    {"var",                 {1e-12, 4e-7, 1e-3, 8e-3},           {1e-14, 2e-6, 3e-3, 2.4e-2}},
    {"std",                 {1e-12, 4e-7, 1e-3, 8e-3},           {1e-13, 1e-5, 3e-3, 2.4e-2}},
    {"logsumexp",           {4e-16, 2.4e-7, 1e-3, 8e-3},         {1e-14, 2e-6, 3e-3, 2.4e-2}},
    {"argmax",              {0, 0, 0, 0},                        {0, 0, 0, 0}},
    // linear algebra
    {"matmul",              {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"linear",              {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"linear_wgrad",        {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"inner",               {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"dot",                 {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"einsum",              {1e-14, 2e-6, 2e-3, 1.6e-2},         {1e-14, 2e-6, 2e-3, 1.6e-2}},
    // convolution, pooling, sampling
    {"conv2d",              {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv2d_dgrad",        {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv2d_wgrad",        {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv2d_pool",         {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv2d_pool_dgrad",   {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv2d_pool_wgrad",   {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv3d",               {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv3d_dgrad",         {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv3d_wgrad",         {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv1d",               {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv_transpose1d",     {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv_transpose2d",     {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"conv_transpose3d",     {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"max_pool2d",          {0, 0, 0, 0},                        {1e-15, 3e-7, 1e-3, 8e-3}},
    {"max_pool2d_grad",     {1e-15, 3e-7, 1e-3, 8e-3},           {0, 0, 0, 0}},
    {"adaptive_max_pool2d",  {0, 0, 0, 0},                        {1e-15, 3e-7, 1e-3, 8e-3}},
    {"avg_pool2d",           {1e-15, 1e-6, 1e-3, 8e-3},           {1e-15, 1e-6, 1e-3, 8e-3}},
    {"avg_pool2d_grad",      {1e-15, 1e-6, 1e-3, 8e-3},           {1e-15, 1e-6, 1e-3, 8e-3}},
    {"adaptive_avg_pool2d",  {1e-15, 1e-6, 1e-3, 8e-3},           {1e-15, 1e-6, 1e-3, 8e-3}},
    {"adaptive_avg_pool2d_grad", {1e-15, 1e-6, 1e-3, 8e-3},           {1e-15, 1e-6, 1e-3, 8e-3}},
    {"avg_pool1d",           {1e-15, 1e-6, 1e-3, 8e-3},           {1e-15, 1e-6, 1e-3, 8e-3}},
    {"avg_pool3d",           {1e-15, 1e-6, 1e-3, 8e-3},           {1e-15, 1e-6, 1e-3, 8e-3}},
    {"adaptive_avg_pool1d",  {1e-15, 1e-6, 1e-3, 8e-3},           {1e-15, 1e-6, 1e-3, 8e-3}},
    {"adaptive_avg_pool3d",  {1e-15, 1e-6, 1e-3, 8e-3},           {1e-15, 1e-6, 1e-3, 8e-3}},
    {"max_pool1d",           {0, 0, 0, 0},                        {1e-15, 3e-7, 1e-3, 8e-3}},
    {"max_pool3d",           {0, 0, 0, 0},                        {1e-15, 3e-7, 1e-3, 8e-3}},
    {"adaptive_max_pool1d",  {0, 0, 0, 0},                        {1e-15, 3e-7, 1e-3, 8e-3}},
    {"adaptive_max_pool3d",  {0, 0, 0, 0},                        {1e-15, 3e-7, 1e-3, 8e-3}},
    {"upsample2d",          {1e-14, 6e-7, 1e-3, 8e-3},           {1e-14, 6e-7, 1e-3, 8e-3}},
    {"upsample2d_grad",     {1e-14, 6e-7, 1e-3, 8e-3},           {1e-14, 6e-7, 1e-3, 8e-3}},
    {"im2col",              {0, 0, 0, 0},                        {2e-15, 6e-7, 1e-3, 8e-3}},
    {"col2im",              {2e-15, 6e-7, 1e-3, 8e-3},           {0, 0, 0, 0}},
    {"grid_sample",         {1e-13, 1e-6, 1e-3, 8e-3},           {1e-13, 2e-6, 1e-3, 8e-3}},
    {"grid_sample_grad",    {1e-13, 2e-6, 1e-3, 8e-3},           {1e-13, 2e-5, 4e-3, 3.2e-2}},
    {"affine_grid",         {1e-14, 1e-6, 2e-3, 1.6e-2},         {1e-14, 1e-6, 2e-3, 1.6e-2}},
    {"upsample",            {1e-14, 6e-7, 1e-3, 8e-3},           {1e-14, 6e-7, 1e-3, 8e-3}},
    // normalisation and loss
    {"batch_norm",          {1e-13, 4e-6, 1e-3, 8e-3},           {1e-12, 1e-5, 2e-3, 1.6e-2}},
    {"batch_norm_grad",     {1e-13, 4e-6, 1e-3, 8e-3},           {1e-12, 2e-5, 4e-3, 3.2e-2}},
    {"conv2d_batch_norm",   {1e-13, 4e-6, 3e-3, 2.4e-2},         {0, 0, 0, 0}},  // rounded between the two
    {"conv2d_dgrad_batch_norm_grad", {1e-13, 4e-6, 3e-3, 2.4e-2}, {0, 0, 0, 0}},
    {"cross_entropy",       {1e-14, 2e-6, 2e-6, 2e-6},           {1e-14, 2e-6, 1e-3, 8e-3}},
    {"cross_entropy_grad",  {1e-14, 2e-6, 1e-3, 8e-3},           {1e-13, 2e-6, 4e-3, 3.2e-2}},
    {"cross_entropy_with_grad", {1e-14, 2e-6, 1e-3, 8e-3},       {1e-13, 2e-6, 4e-3, 3.2e-2}},
    {"linear_cross_entropy", {1e-13, 4e-6, 0, 0},                {1e-12, 1e-5, 0, 0}},
    {"linear_cross_entropy_dgrad", {1e-13, 8e-6, 0, 0},          {1e-12, 1e-5, 0, 0}},  // its last product's terms cancel
    {"softmax",             {2e-15, 1e-6, 5e-4, 4e-3},           {1e-14, 1e-6, 2e-3, 1.6e-2}},
    {"log_softmax",         {2e-15, 1e-6, 5e-4, 4e-3},           {1e-14, 1e-6, 2e-3, 1.6e-2}},
    {"softmax_grad",        {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 4e-3, 3.2e-2}},
    {"log_softmax_grad",    {1e-14, 2e-6, 1e-3, 8e-3},           {1e-14, 2e-6, 4e-3, 3.2e-2}},
    {"layer_norm",          {2e-13, 2e-6, 1e-3, 8e-3},           {1e-12, 5e-6, 2e-3, 1.6e-2}},
    {"rms_norm",            {1e-13, 2e-6, 1e-3, 8e-3},           {1e-12, 5e-6, 2e-3, 1.6e-2}},
    {"layer_norm_grad",     {1e-13, 2e-6, 1e-3, 8e-3},           {1e-12, 5e-6, 4e-3, 3.2e-2}},
    {"rms_norm_grad",       {1e-13, 2e-6, 1e-3, 8e-3},           {1e-12, 5e-6, 4e-3, 3.2e-2}},
    {"group_norm",          {1e-13, 2e-6, 1e-3, 8e-3},           {1e-12, 5e-6, 2e-3, 1.6e-2}},
    {"group_norm_grad",     {1e-13, 2e-6, 1e-3, 8e-3},           {1e-12, 5e-6, 4e-3, 3.2e-2}},
    {"instance_norm",       {1e-13, 4e-6, 1e-3, 8e-3},           {1e-12, 1e-5, 2e-3, 1.6e-2}},
    {"local_response_norm", {2e-15, 1e-6, 2e-3, 1.6e-2},         {1e-14, 2e-6, 6e-3, 4.8e-2}},
    {"cosine_similarity",   {2e-15, 1e-6, 2e-3, 1.6e-2},         {1e-14, 2e-6, 6e-3, 4.8e-2}},
    {"cosine_embedding_loss", {2e-15, 1e-6, 2e-3, 1.6e-2},       {1e-14, 2e-6, 6e-3, 4.8e-2}},
    {"triplet_margin_loss", {2e-15, 1e-6, 2e-3, 1.6e-2},         {1e-14, 2e-6, 6e-3, 4.8e-2}},
    // indexing
    {"masked_fill",         {0, 6e-8, 5e-4, 4e-3},               {1e-15, 2e-6, 3e-3, 2.4e-2}},  // a sum
    {"embedding_grad",      {1e-14, 1e-6, 1e-3, 8e-3},           {1e-15, 6e-7, 3e-3, 2.4e-2}},  // a sum in any order
    // random, updates
    {"rng_take",            {0, 0, 0, 0},                        {0, 0, 0, 0}},
    {"uniform",             {1e-15, 1.2e-7, 5e-4, 4e-3},         {0, 0, 0, 0}},
    {"normal",              {1e-12, 1e-6, 6e-4, 5e-3},           {0, 0, 0, 0}},
    {"prod",                {2e-15, 2.4e-7, 1e-3, 8e-3},         {2e-15, 6e-7, 3e-3, 2.4e-2}},  // one per factor
    {"dropout",             {1e-7, 2e-7, 1e-3, 8e-3},            {1e-7, 2e-7, 1e-3, 8e-3}},
    {"sgd_update",          {4e-16, 3e-7, 1e-3, 8e-3},            {0, 0, 0, 0}},
    {"adam_update",         {1e-14, 1e-6, 1e-3, 8e-3},            {0, 0, 0, 0}},  // 1 - beta^step
    {"linear_sgd_update",   {1e-14, 4e-6, 4e-3, 3.2e-2},          {0, 0, 0, 0}},  // sums of products
    {"linear_adam_update",  {1e-13, 4e-6, 4e-3, 3.2e-2},          {0, 0, 0, 0}},
    {"linear_rmsprop_update", {1e-14, 4e-6, 4e-3, 3.2e-2},        {0, 0, 0, 0}},
    {"linear_adagrad_update", {1e-14, 4e-6, 4e-3, 3.2e-2},        {0, 0, 0, 0}},
    {"rmsprop_update",      {1e-15, 1e-6, 1e-3, 8e-3},            {0, 0, 0, 0}},
};
// clang-format on

/// The row of `op`; an op without one is held to a rounding or two.
inline Tolerances tolerance_of(std::string_view op) {
  for (const ToleranceRow& row : kTolerances)
    if (row.op == op) return {row.forward, row.gradient};
  return {{4e-16, 2.4e-7, 1e-3, 8e-3}, {1e-15, 6e-7, 3e-3, 2.4e-2}};
}
/// What the sample or the case says, else the row of its op.
inline Tolerances tolerance_of(const OpCase& c, const Sample& s) {
  if (const Tolerances* own = own_tolerance(c, s)) return *own;
  return c.tolerance ? *c.tolerance : tolerance_of(std::string_view(c.op));
}

}  // namespace mica::cases
