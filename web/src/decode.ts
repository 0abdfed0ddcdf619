// What Python packed (report/html/packing.py): base64 of gzip of a header in JSON and columns of numbers.

const DECODERS: Record<string, (buffer: ArrayBuffer, at: number, count: number) => ArrayLike<number>> = {
  u1: (buffer, at, count) => new Uint8Array(buffer, at, count),
  i1: (buffer, at, count) => new Int8Array(buffer, at, count),
  u2: (buffer, at, count) => new Uint16Array(buffer, at, count),
  i2: (buffer, at, count) => new Int16Array(buffer, at, count),
  u4: (buffer, at, count) => new Uint32Array(buffer, at, count),
  i4: (buffer, at, count) => new Int32Array(buffer, at, count),
  f8: (buffer, at, count) => new Float64Array(buffer, at, count),
};

export class Unpacked {
  constructor(
    readonly header: Record<string, unknown>,
    private readonly buffer: ArrayBuffer,
    private readonly begin: number,
    private readonly places: Record<string, [string, number, number]>,
  ) {}

  /** A column of small whole numbers. */
  ints(name: string): Int32Array {
    return this.into(name, (length) => new Int32Array(length));
  }

  /** A column of whole numbers below 2**53. */
  floats(name: string): Float64Array {
    return this.into(name, (length) => new Float64Array(length));
  }

  private into<T extends Int32Array | Float64Array>(name: string, make: (length: number) => T): T {
    const [kind, at, length] = this.places[name];
    const differences = kind.startsWith("d");
    const stored = DECODERS[differences ? kind.slice(1) : kind](this.buffer, this.begin + at, length);
    const found = make(length);
    let value = 0;
    for (let i = 0; i < length; i++) {
      value = differences ? value + stored[i] : stored[i];
      found[i] = value;
    }
    return found;
  }
}

export async function unpack(text: string): Promise<Unpacked> {
  const binary = atob(text);
  const packed = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) packed[i] = binary.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return new Unpacked(header, buffer, 4 + length, header.columns);
}
