//! Presets that follow the data sheet of one product, whose name the kernel shows as its maker
//! prints it. The other presets stand for a class of devices, or the kernel's name of their product
//! has an ending that no data sheet tells.

use crate::size_class::SizeClass;

/// A product that a preset stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// The preset's name.
    pub preset: &'static str,
    /// The model, as the kernel shows it.
    pub model: &'static str,
    /// Capacity, as the data sheet says it.
    pub size_bytes: u64,
}

impl Product {
    /// Its size class.
    #[must_use]
    pub fn size(&self) -> SizeClass {
        SizeClass::of(self.size_bytes)
    }
}

const PRODUCTS: [Product; 3] = [
    // Seagate Barracuda 7200.12 product manual (100529369).
    Product { preset: "hdd-7200", model: "ST31000528AS", size_bytes: 1_000_204_886_016 },
    // Samsung 970 EVO Plus data sheet.
    Product {
        preset: "nvme-consumer",
        model: "Samsung SSD 970 EVO Plus 1TB",
        size_bytes: 1_000_204_886_016,
    },
    // Samsung 860 EVO data sheet.
    Product { preset: "sata-ssd", model: "Samsung SSD 860 EVO 500GB", size_bytes: 500_107_862_016 },
];

/// The product that a preset stands for; `None` if it stands for a class of devices.
#[must_use]
pub fn product(preset: &str) -> Option<&'static Product> {
    PRODUCTS.iter().find(|product| product.preset == preset)
}
