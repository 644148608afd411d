#include "mica/models/lenet.h"

#include "mica/nn/nn.h"

namespace mica::models {

nn::Sequential lenet() {
  return nn::Sequential{nn::Conv2d({.in = 1, .out = 20, .kernel = 5}),   // (N, 20, 24, 24)
                        nn::MaxPool2d(2),                                // (N, 20, 12, 12)
                        nn::Conv2d({.in = 20, .out = 50, .kernel = 5}),  // (N, 50, 8, 8)
                        nn::MaxPool2d(2),                                // (N, 50, 4, 4)
                        nn::Flatten(),                                   // (N, 800)
                        nn::Linear(800, 500),
                        nn::ReLU(),
                        nn::Linear(500, 10)};
}

}  // namespace mica::models
