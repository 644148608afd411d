// Trains on a data set of one's own that reads images from disk: dataset [IMAGES]. The images, bars
// that stand or lie, are made first, so that the example needs nothing.
#include <mica/mica.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

using namespace mica;
namespace fs = std::filesystem;

/// A folder with a file `labels.csv` of lines NAME,CLASS. Images are read when they are asked for,
/// by the threads of a Loader.
class LabelledFolder final : public data::DatasetImpl {
 public:
  explicit LabelledFolder(fs::path folder) : folder_(std::move(folder)) {
    class_names = {"standing", "lying"};
    std::ifstream lines(folder_ / "labels.csv");
    for (std::string line; std::getline(lines, line);) {
      const size_t comma = line.find(',');
      if (comma == std::string::npos) throw IoError("labels.csv: expected NAME,CLASS: " + line);
      entries_.push_back({line.substr(0, comma), std::stoll(line.substr(comma + 1))});
    }
  }

  int64_t size() const override { return static_cast<int64_t>(entries_.size()); }

  data::Example get(int64_t i) const override {
    const Entry& e = entries_[static_cast<size_t>(i)];
    const Tensor image = io::read_image((folder_ / e.name).string(), {.channels = 1});
    return data::Example::list({image.to(DType::f32) / 255, scalar(e.label, DType::i64)});
  }

 private:
  struct Entry {
    std::string name;
    int64_t label;
  };
  fs::path folder_;
  std::vector<Entry> entries_;
};

/// A folder that nobody else has.
fs::path new_folder() {
  std::random_device numbers;
  for (;;) {
    const fs::path folder = fs::temp_directory_path() / ("mica-bars-" + std::to_string(numbers()));
    if (fs::create_directory(folder)) return folder;
  }
}

/// Bars of 4 by 12 pixels somewhere in 16 by 16, on noise.
void make_images(const fs::path& folder, int64_t images) {
  std::ofstream labels(folder / "labels.csv");
  for (int64_t i = 0; i < images; ++i) {
    const Tensor image = randint(0, 128, {1, 16, 16}).to(DType::u8);
    const int64_t at = randint(0, 12, {}).item<int64_t>();
    const Slice across(at, at + 4);
    const Slice along(2, 14);
    const bool lies = i % 2 == 1;
    image.index({0, lies ? across : along, lies ? along : across}) = 255;
    const std::string name = std::to_string(i) + ".png";
    io::write_png((folder / name).string(), image);
    labels << name << ',' << (lies ? 1 : 0) << '\n';
  }
}

int main(int argc, char** argv) try {
  const int64_t images = std::min<int64_t>(argc > 1 ? std::atoll(argv[1]) : 2000, 400);
  manual_seed(0);
  const fs::path folder = new_folder();
  make_images(folder, images);

  const data::Dataset all(std::make_shared<LabelledFolder>(folder));
  const data::Dataset mixed = all.shuffle(0);
  const int64_t part = all.size() * 3 / 4;
  std::vector<int64_t> rest;
  for (int64_t i = part; i < all.size(); ++i) rest.push_back(i);
  const data::Loader train(mixed.first(part), {.batch = 32, .shuffle = 0, .workers = 2});
  const data::Loader test(mixed.subset(rest), {.batch = 100});

  const nn::Sequential net(nn::Conv2d(1, 8, 5), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                           nn::Linear(8 * 6 * 6, 2));
  optim::Adam optimizer(net.parameters(), {.lr = 2e-3});
  double accuracy = 0;
  train::Trainer trainer(
      net, optimizer, {.epochs = 4, .progress = false, .on_epoch = [&](const auto& r) {
                         accuracy = r.metric("accuracy");
                         std::printf("epoch %lld: loss %.3f, %.1f %% right\n",
                                     static_cast<long long>(r.epoch), r.train_loss, 100 * accuracy);
                       }});
  trainer.fit(train, test);
  fs::remove_all(folder);
  return accuracy > 0.9 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "dataset: %s\n", e.what());
  return 1;
}
